"""Speed of `flatmix convert` beside that of its tokenizer alone -> their ratio, and the memory of the largest process.

    python tools/measure_conversion.py [--workers N] [--megabytes 100] [--messages 50] [--rounds 5]
    python tools/measure_conversion.py --languages 1000

The text: django's messages in all its languages, --messages of them to a document, repeated up to --megabytes; a BPE
of 32,000 tokens is trained on it once. The tokenizer alone: N processes that hold the documents in memory, each
encoding its share in batches, on one thread; the ids are not even taken out. The command: `flatmix convert --workers N`
on a file of JSON lines, in a process of its own, from its start to its end. The two take turns, and each is first as
often as the other. With --languages: so many languages of 100 documents each, a file each, in one command.
Output: Markdown. To expect: five minutes on two cores, and half a gigabyte of temporary files; on a busy machine the
speeds move, their ratio, of a pair measured in turn, moves less, and that of CPU seconds least.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from flatmix.demo.texts import django_folder, write_demo_texts

VOCABULARY = 32_000
BATCH = 1_024  # documents, as `flatmix convert` encodes them
DOCUMENTS = 100  # of a language, with --languages
PROCESSES = multiprocessing.get_context("spawn")  # whose memory is their own; see `timed_command`


class Cost(NamedTuple):
    """What work took."""

    seconds: float
    cpu: float  # seconds, of all processes


class Command(NamedTuple):
    """A conversion that has ended."""

    cost: Cost
    work: float  # seconds of the conversion in it, without imports and the interpreter
    peak: int  # bytes of its largest process
    summary: dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    heading, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=heading, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes; default: as many as processors")
    parser.add_argument("--megabytes", type=int, default=100, help="of text; default: 100")
    parser.add_argument("--messages", type=int, default=50, help="in a document; default: 50, which are 2 kB or so")
    parser.add_argument("--rounds", type=int, default=5, help="pairs that are measured; default: 5")
    parser.add_argument("--languages", type=int, metavar="COUNT", help="measure a store of so many languages instead")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="conversion.") as name:
        folder = Path(name)
        in_process(prepare, folder, options.messages, options.megabytes, options.languages)
        if options.languages is None:
            measure(folder, options.workers, options.rounds)
        else:
            measure_languages(folder, options.workers, options.languages, options.rounds)


def prepare(folder: Path, messages: int, megabytes: int, languages: int | None) -> None:
    """Writes tokenizer.json, and text.jsonl, or a file for each of `languages` and conversion.toml, naming them."""
    catalogues = django_folder().glob("conf/locale/*/LC_MESSAGES/django.po")
    files = write_demo_texts(folder / "texts", sorted({"en", *(path.parts[-3] for path in catalogues)}))
    known = [[json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()] for file in files.values()]
    train([text for texts in known for text in texts]).save(str(folder / "tokenizer.json"))
    if languages is not None:
        write_languages(folder, known, languages)
        return
    documents = ["\n".join(texts[i : i + messages]) for texts in known for i in range(0, len(texts), messages)]
    size = 0
    with (folder / "text.jsonl").open("w", encoding="utf-8") as file:
        while size < megabytes * 10**6:
            for document in documents:
                file.write(json.dumps({"text": document}, ensure_ascii=False) + "\n")
                size += len(document.encode())


def train(texts: Sequence[str]) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def write_languages(folder: Path, known: Sequence[Sequence[str]], count: int) -> None:
    tables = []
    for number in range(count):
        texts, file = known[number % len(known)], folder / f"{number}.jsonl"
        chosen = (texts * DOCUMENTS)[:DOCUMENTS]
        lines = [json.dumps({"text": f"{number} {text}"}, ensure_ascii=False) + "\n" for text in chosen]
        file.write_bytes("".join(lines).encode())
        tables.append(f'[[source]]\nlanguage = "l{number}"\ndata = "{file.name}"\n')
    (folder / "conversion.toml").write_text('tokenizer = "tokenizer.json"\n' + "".join(tables))


def measure(folder: Path, workers: int, rounds: int) -> None:
    given = ["--language", f"text={folder / 'text.jsonl'}", "--tokenizer", str(folder / "tokenizer.json")]
    pairs: list[tuple[Cost, Command]] = []
    for turn in range(rounds):
        if turn % 2:
            alone = tokenizer_alone(folder, workers)
            command = timed_command(folder, workers, given)
        else:
            command = timed_command(folder, workers, given)
            alone = tokenizer_alone(folder, workers)
        pairs.append((alone, command))
    written = command.summary["languages"]["text"]["train"]
    megabytes = written["utf8_bytes"] / 1e6
    print(
        f"{written['documents']:,} documents, {megabytes:.0f} MB of text, {written['tokens']:,} tokens; {workers} "
        f"processes; medians of {rounds} pairs\n"
    )
    print("| | seconds | MB/s | speed beside the tokenizer alone | CPU seconds | CPU beside it |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, costs in (
        ("tokenizer alone", [alone for alone, _ in pairs]),
        ("`flatmix convert`", [command.cost for _, command in pairs]),
        ("the same without its start", [command.cost._replace(seconds=command.work) for _, command in pairs]),
    ):
        speeds = [alone.seconds / one.seconds for (alone, _), one in zip(pairs, costs, strict=True)]
        shares = [one.cpu / alone.cpu for (alone, _), one in zip(pairs, costs, strict=True)]
        seconds, cpu = (statistics.median(column) for column in zip(*costs, strict=True))
        print(f"| {name} | {seconds:.1f} | {megabytes / seconds:.1f} | {said(speeds)} | {cpu:.1f} | {said(shares)} |")
    print(f"\nMemory of the largest process at its peak: {max(command.peak for _, command in pairs) / 1e6:.0f} MB")


def said(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def measure_languages(folder: Path, workers: int, count: int, rounds: int) -> None:
    commands = [timed_command(folder, workers, ["--config", str(folder / "conversion.toml")]) for _ in range(rounds)]
    found = commands[0].summary["languages"]
    documents = sum(splits["train"]["documents"] for splits in found.values())
    if (len(found), documents) != (count, count * DOCUMENTS):
        raise SystemExit(f"measure_conversion: {len(found)} languages with {documents} documents were written")
    seconds = [command.cost.seconds for command in commands]
    print(
        f"{count:,} languages of {DOCUMENTS} documents, {workers} processes: {statistics.median(seconds):.1f} s, "
        f"median of {rounds} ({min(seconds):.1f} to {max(seconds):.1f}); largest process "
        f"{max(command.peak for command in commands) / 1e6:.0f} MB"
    )


def tokenizer_alone(folder: Path, workers: int) -> Cost:
    """From the first document to the last, of `workers` processes that have all been made ready before."""
    ready, times = PROCESSES.Barrier(workers), PROCESSES.SimpleQueue()
    processes = [
        PROCESSES.Process(target=encode_share, args=(folder, number, workers, ready, times))
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    found = [times.get() for _ in processes]
    for process in processes:
        process.join()
    begun, ended, cpu = zip(*found, strict=True)
    return Cost(max(ended) - min(begun), sum(cpu))


def encode_share(folder: Path, number: int, workers: int, ready: Any, times: Any) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    batches = list(share(folder / "text.jsonl", number, workers))
    ready.wait()
    begun, before = time.monotonic(), time.process_time()  # the former is the same clock in all processes
    for batch in batches:
        tokenizer.encode_batch_fast(batch, add_special_tokens=False)
    times.put((begun, time.monotonic(), time.process_time() - before))


def share(file: Path, number: int, workers: int) -> Iterator[list[str]]:
    """The batches of one of `workers`, which together have every document once."""
    with file.open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for i, line in enumerate(lines) if i // BATCH % workers == number]
    for i in range(0, len(texts), BATCH):
        yield texts[i : i + BATCH]


def timed_command(folder: Path, workers: int, given: Sequence[str]) -> Command:
    """Runs `flatmix convert` in a process of its own.

    A process that is started counts the memory of the one that started it as its own, too; so this one holds no data.
    """
    with tempfile.TemporaryDirectory(dir=folder) as place, Path(place, "summary.json").open("w+b") as out:
        command = [sys.executable, "-m", "flatmix", "convert", str(Path(place, "store.zarr")), *given, "--json"]
        begun = time.monotonic()
        process = subprocess.Popen([*command, "--workers", str(workers)], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"measure_conversion: {' '.join(command)} ended with status {process.returncode}")
        out.seek(0)
        summary = json.load(out)
    return Command(Cost(seconds, usage.ru_utime + usage.ru_stime), summary["seconds"], usage.ru_maxrss * 1024, summary)


def in_process(function: Any, *arguments: Any) -> None:
    process = PROCESSES.Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"measure_conversion: {function.__name__} failed")


if __name__ == "__main__":
    main()
