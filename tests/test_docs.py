"""README and docs: every Python block runs and prints what the page says, links and names lead somewhere, the NumPy
version of the order is the order, and the page of commands is fresh."""

import contextlib
import importlib
import importlib.util
import io
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer

import flatmix
from flatmix.cli import app, main
from flatmix.order import Order, permutation

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "order-v1.json").read_text(encoding="utf-8"))["order"]
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands

every_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


class Block(NamedTuple):
    info: str
    line: int  # lines of the page up to its code
    code: str
    before: str  # the text since the block before it


def blocks_of(page: Path) -> list[Block]:
    text, end, blocks = page.read_text(encoding="utf-8"), 0, []
    for fence in re.finditer(r"^```([^`\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, fence.start()) + 1
        blocks.append(Block(fence[1].strip(), line, fence[2], text[end : fence.start()]))
        end = fence.end()
    return blocks


def run_page(page: Path) -> dict[str, Any]:
    """Runs the Python blocks in one namespace, which it returns; a `text` block right after one is what it prints."""
    namespace: dict[str, Any] = {}
    blocks = blocks_of(page)
    for number, block in enumerate(blocks):
        if not block.info.startswith("python"):
            continue
        if block.info != "python":
            assert block.info == "python notest", f"{page.name}:{block.line}: what is {block.info!r}?"
            assert block.code.startswith("# "), f"{page.name}:{block.line}: a block that does not run says why"
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * block.line + block.code, str(page), "exec"), namespace)
        for after in blocks[number + 1 : number + 2]:
            if after.info == "text" and not after.before.strip():
                assert after.code == printed.getvalue(), f"{page.name}:{after.line}: the block above prints this"
    return namespace


def prose_of(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Links to files that are not there, or to headings that their page does not have. Other sites are not asked."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    return broken


def exists(dotted: str) -> bool:
    value: Any = flatmix
    path = "flatmix"
    for name in dotted.split(".")[1:]:
        path = f"{path}.{name}"
        if hasattr(value, name):
            value = getattr(value, name)
            continue
        try:
            value = importlib.import_module(path)
        except ImportError:
            return False
    return True


def absent_things(page: Path) -> list[str]:
    """Attributes of flatmix, files of the project, commands and their options that the page names and nobody made."""
    text = page.read_text(encoding="utf-8")
    absent = [name for name in re.findall(r"(?<![\w./-])flatmix(?:\.[A-Za-z_]\w*)+", text) if not exists(name)]
    paths = re.findall(r"`((?:flatmix|tests|tools|docs)/[\w./-]+)`", text)
    absent += [path for path in paths if not (ROOT / path).exists()]
    code = re.findall(r"`([^`\n]+)`", prose_of(page)) + [line for b in blocks_of(page) for line in b.code.split("\n")]
    for name, rest in (found.groups() for line in code if (found := re.match(r"flatmix ([a-z][\w-]*)(.*)", line))):
        if name not in COMMANDS:
            absent.append(f"flatmix {name}")
            continue
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts} | {"--help"}
        absent += [f"flatmix {name} {option}" for option in re.findall(r"(?<=\s)--[\w-]+", rest) if option not in known]
    return absent


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


@every_page
def test_links_lead_to_pages_and_headings_that_are_there(page: Path):
    assert broken_links(page) == []


@every_page
def test_pages_name_nothing_that_is_absent(page: Path):
    assert absent_things(page) == []


def test_readme_leads_to_every_page():
    links = re.findall(r"\]\((docs/[^)#\s]+)", prose_of(ROOT / "README.md"))

    assert set(links) == {f"docs/{page.name}" for page in PAGES if page.name != "README.md"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\n1 / 0\n```\n", "division by zero"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "the block above prints this"),
        ("```python notest\nprint(1)\n```\n", "says why"),
        ("```python no-test\n# a reason\n```\n", "what is"),
    ],
)
def test_block_that_does_not_hold_is_found(tmp_path: Path, text: str, message: str):
    page = tmp_path / "page.md"
    page.write_text(text)

    with pytest.raises((AssertionError, ZeroDivisionError), match=message):
        run_page(page)


def test_broken_links_and_absent_things_are_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n[a](#one) [b](#two) [c](none.md) [d](page.md#one)\n"
        "`flatmix.open_store` `flatmix.open_stores` `flatmix.order.no.Thing` `flatmix/none.py` `flatmix mix`\n"
        "```bash\nflatmix show s.zarr --step 1 --stop 2\n```\n"
    )

    assert broken_links(page) == ["#two", "none.md"]
    assert absent_things(page) == [
        "flatmix.open_stores",
        "flatmix.order.no.Thing",
        "flatmix/none.py",
        "flatmix mix",
        "flatmix show --stop",
    ]


@pytest.fixture(scope="module")
def numpy_order() -> dict[str, Any]:
    """What the blocks of docs/order.md define."""
    return run_page(ROOT / "docs" / "order.md")


def page_config(config: dict[str, Any]) -> dict[str, Any]:
    """A golden configuration as docs/order.md writes one."""
    timeline = config.get("timeline") or [(0, 0, config["batch"])]
    keys = {name: int(key) for name, key in config.get("keys", {}).items()}
    return {**config, "seed": int(config["seed"]), "timeline": [tuple(entry) for entry in timeline], "keys": keys}


@pytest.mark.parametrize("case", GOLDEN, ids=range(len(GOLDEN)))
def test_numpy_version_of_the_order_gives_the_golden_values(
    case: dict[str, Any], numpy_order: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """In the case whose steps are far, it counts in closed form, and the permutations of millions are flatmix's."""
    config = page_config(case["config"])
    if max(case["steps"]) > 1000:
        monkeypatch.setitem(numpy_order, "counts", numpy_order["balanced_counts"])
        monkeypatch.setitem(numpy_order, "permutation", cache(permutation.fisher_yates))

    rows = [[list(row) for row in numpy_order["rows"](config, step)] for step in case["steps"]]
    counts = [numpy_order["counts"](config, int(entry["slot"])).tolist() for entry in case["counts"]]

    assert rows == case["rows"]
    assert counts == [entry["counts"] for entry in case["counts"]]


THREE = {"windows": {"en": 83, "中文": 41, "sw": 17}, "phases": [(0, {"en": 0.6, "中文": 0.3, "sw": 0.1})]}
PHASES = [(0, {"en": 3}), (12, {"sw": 1e-3, "en": 2.5}), (60, {"中文": 1, "sw": 0, "en": 1})]
CONFIGS = [
    {**THREE, "seed": 2**64 - 1, "timeline": [(0, 0, 6)], "streams": 3, "selector": "hash", "q": 2, "p": 2},
    {**THREE, "seed": 2**63, "timeline": [(0, 0, 8)], "streams": 2, "selector": "balanced", "q": 5, "p": 3},
    {**THREE, "phases": PHASES, "seed": 0, "timeline": [(0, 0, 6)], "streams": 6, "selector": "hash", "q": 1, "p": 9},
    {**THREE, "phases": PHASES, "seed": 5, "timeline": [(0, 0, 4), (9, 80, 12), (11, 8, 4)], "streams": 4, "q": 3,
     "p": 1, "selector": "balanced", "keys": {"en": 2**64 - 1, "sw": 0}},
    {"windows": {"a": 1200, "b": 29, "c": 1024}, "phases": [(0, {"a": 1, "b": 1, "c": 1})], "seed": 11,
     "timeline": [(0, 0, 64)], "streams": 2, "selector": "hash", "window": 2**18},
    {"windows": {"a": 1000, "b": 29}, "phases": [(0, {"a": 1, "b": 1})], "seed": 12, "timeline": [(0, 0, 32)],
     "streams": 4, "selector": "balanced", "window": 20_000},
]  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_numpy_version_of_the_order_equals_flatmix(config: dict[str, Any], numpy_order: dict[str, Any]):
    (_, weights), *phases = config["phases"]
    order = Order(
        config["windows"],
        weights,
        phases,
        seed=config["seed"],
        timeline=config["timeline"],
        streams=config["streams"],
        selector=config["selector"],
        sequences_per_read_block=config.get("q", "auto"),
        read_blocks_per_shuffle_buffer=config.get("p", "auto"),
        window_tokens=config.get("window"),
        keys=config.get("keys"),
    )

    for step in (0, 1, 8, 9, 10, 11, 12, 40):
        rows = order.rows(step)
        columns = (rows.language, rows.occurrence, rows.epoch, rows.window)
        expected = [(order.names[language], *rest) for language, *rest in np.stack(columns, axis=1).tolist()]
        assert numpy_order["rows"](config, step) == expected
    slot = 25 * config["streams"]
    assert numpy_order["counts"](config, slot).tolist() == order.counts(slot).tolist()


def test_page_of_commands_is_fresh():
    spec = importlib.util.spec_from_file_location("update_cli_docs", ROOT / "tools" / "update_cli_docs.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == tool.render(), (
        "write the page anew: python tools/update_cli_docs.py"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_and_page_of_commands_name_the_same_options(name: str, capsys: pytest.CaptureFixture[str]):
    """The page is made from the commands and not from what `--help` prints, which depends on the terminal."""
    with pytest.raises(SystemExit) as exit_status:
        main([name, "--help"])
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## flatmix {name}\n")[2].partition("\n## ")[0]

    assert exit_status.value.code == 0
    assert set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", capsys.readouterr().out, re.MULTILINE)) == {
        *re.findall(r"^\| `(--[\w-]+)", section, re.MULTILINE),
        "--help",
    }
