"""The commands' own help -> docs/cli.md, the only writer of that page.

    python tools/update_cli_docs.py

Input: the commands registered in `flatmix.cli.app`, with their docstrings, arguments and options. Output: docs/cli.md,
with a section for each command. To expect: one line that names the file and counts the commands. Nothing depends on the
terminal, on its width or on the version of typer.
"""

import re
import textwrap
from pathlib import Path
from typing import Any

import typer

from flatmix.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"

HEAD = """\
# Commands

This page is written from the commands' own help, which `--help` (or `-h`) after any of them prints.

`flatmix` and `python -m flatmix` are the same. A command that has done its work exits with status 0. An error in the
input, the settings or a store is one line on standard error, `flatmix: error: ...`, and status 1. A command line that
cannot be understood exits with status 2.
"""


def render() -> str:
    """The page as it should be, without a look at the one that is there."""
    commands: dict[str, Any] = dict(typer.main.get_command(app).commands)  # pyright: ignore[reportAttributeAccessIssue]
    summary = [f"| [`flatmix {name}`](#flatmix-{name}) | {_cell(_first_sentence(c))} |" for name, c in commands.items()]
    parts = [HEAD, "\n".join(["| command | what it does |", "| --- | --- |", *summary]) + "\n"]
    return "\n".join([*parts, *(_section(name, command) for name, command in commands.items())])


def _section(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    usage = " ".join([f"flatmix {name}", "[OPTIONS]", *(_argument(argument) for argument in arguments)])
    rows = [f"| `{_spelling(parameter)}` | {_cell(_meaning(parameter))} |" for parameter in command.params]
    table = "\n".join(["| argument or option | meaning |", "| --- | --- |", *rows])
    return "\n\n".join([f"## flatmix {name}", _code(usage), *_paragraphs(command.help or ""), table]) + "\n"


def _first_sentence(command: Any) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def _paragraphs(text: str) -> list[str]:
    """The help in Markdown. Examples become code: "Example: flatmix ..." to the end of its paragraph, and the lines
    after the first of a paragraph that click is told to leave as it is (by a backspace)."""
    result: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith("\b\n"):
            heading, _, lines = paragraph[2:].partition("\n")
            result += [_escape(heading), _code(textwrap.dedent(lines))]
            continue
        before, example, command = paragraph.partition("Example: ")
        if before.strip():
            result.append(_escape(before.strip()))
        if example:
            result += ["Example:", _code(" ".join(command.split()))]
    return result


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper() + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _argument(parameter)
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {parameter.metavar or parameter.name.upper()}"


def _meaning(parameter: Any) -> str:
    text = re.sub(r"\[default: (.+)\]$", r"Default: \1.", " ".join((parameter.help or "").split()))
    default = parameter.default
    if parameter.required:
        text += " Required."
    elif isinstance(default, (str, int, float, Path)) and not isinstance(default, bool):
        text += f" Default: `{default}`."
    return text


def _code(lines: str) -> str:
    return f"```text\n{lines.rstrip()}\n```"


def _cell(text: str) -> str:
    return _escape(text).replace("|", "\\|")


def _escape(text: str) -> str:
    """Keeps Markdown from reading what help texts have in plain."""
    return re.sub(r"(?<!\w)[*_]|[*_](?!\w)|<", lambda found: "\\" + found[0], text)


def main() -> None:
    page = render()
    PAGE.write_text(page, encoding="utf-8")
    print(f"{PAGE.name}: {page.count(chr(10) + '## ')} commands")


if __name__ == "__main__":
    main()
