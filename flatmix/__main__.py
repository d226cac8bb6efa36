"""`python -m flatmix` is the command `flatmix`."""

from flatmix.cli import main

if __name__ == "__main__":
    main()
