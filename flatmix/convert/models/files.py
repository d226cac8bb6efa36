"""What a user names -> the file that defines a tokenizer: a path, a folder, or a name at the Hugging Face Hub.

A name is made exact, with a hash for a revision, so that all workers, whenever they begin, load the same one.
"""

import os
from pathlib import Path
from typing import NamedTuple

from flatmix.errors import ConvertError, ReadError

HUB = "hf:"
FILES = ("tokenizer.json", "tokenizer.model")  # in a folder or at the hub, the first that is there


class Definition(NamedTuple):
    """A tokenizer's file."""

    spec: str  # finds it again, from any folder and on any machine that has it
    name: str  # for people
    path: Path
    content: bytes


def find_definition(spec: str | os.PathLike[str]) -> Definition:
    """ConvertError where there is no such file, ReadError where it cannot be read or fetched."""
    if isinstance(spec, str) and spec.startswith(HUB):
        return _fetch(spec)
    path = Path(spec)
    name = path.name
    if path.is_dir():
        path = _in_folder(path)
        name = f"{path.parent.resolve().name}/{path.name}"
    try:
        return Definition(str(Path(spec).absolute()), name, path, path.read_bytes())
    except FileNotFoundError:
        raise ConvertError(
            f'tokenizer {spec}: there is no such file; give the path of one, "bytes", or "{HUB}NAME" for one of the '
            "Hugging Face Hub"
        ) from None
    except OSError as error:
        raise ReadError(f"tokenizer {path} could not be read: {error}") from error


def _in_folder(folder: Path) -> Path:
    for name in FILES:
        if (folder / name).is_file():
            return folder / name
    raise ConvertError(f"tokenizer {folder} is a folder without {' or '.join(FILES)}; give the path of the file itself")


def _fetch(spec: str) -> Definition:
    from huggingface_hub import errors, hf_hub_download  # here, because only this needs it

    name, _, revision = spec.removeprefix(HUB).partition("@")
    for file in FILES:
        try:
            path = Path(hf_hub_download(name, file, revision=revision or None))
            break
        except errors.LocalEntryNotFoundError as error:  # offline; a kind of EntryNotFoundError, so it comes first
            raise ReadError(
                f"tokenizer {spec} could not be fetched and was not fetched before: {error}; give the path of its file"
            ) from error
        except errors.EntryNotFoundError:
            continue
        except (errors.HFValidationError, errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
            raise ConvertError(
                f'tokenizer {spec} is not at the Hugging Face Hub: {error}; write "{HUB}OWNER/NAME" or '
                f'"{HUB}OWNER/NAME@REVISION", and log in for what is not public'
            ) from error
        except Exception as error:  # of the network: the client's kinds differ between versions
            raise ReadError(f"tokenizer {spec} could not be fetched: {type(error).__name__}: {error}") from error
    else:
        raise ConvertError(f"tokenizer {spec} has no {' or '.join(FILES)}; give the path of its file")
    # Files lie in a folder named by the hash of their revision.
    return Definition(f"{HUB}{name}@{path.parent.name}", name, path, path.read_bytes())
