"""staged parts -> where each document goes: sums over their lengths, all that has to be known of them together.

The documents of a split are those of its parts in the sequence of the units, so how many tokens and documents lie
before a part is a sum; every worker then knows which parts a shard is made of, whoever made them.

Cost: one small read for each part.
"""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from flatmix.convert.job import Job
from flatmix.convert.parts import Part, part_names, read_part, written_whole
from flatmix.convert.reading import place_of
from flatmix.convert.staging import load_file
from flatmix.errors import ConvertError, ReadError

BASES, LAYOUTS = "bases.json", "layouts"
EXAMPLES = 10  # bad records whose places are reported


class Placed(msgspec.Struct, array_like=True, frozen=True):
    """One content of one part, in its place."""

    part: str
    content: int
    unit: int
    tokens: int
    documents: int
    first_token: int  # of the split
    first_document: int


class Output(msgspec.Struct, frozen=True):
    """One split to be written, and what it is made of."""

    source: int
    language: str
    split: str
    tokens: int
    documents: int
    empty: int
    utf8_bytes: int | None
    largest: int
    seconds: float  # of workers
    placed: list[Placed]

    @property
    def name(self) -> str:
        return f"{self.language}/{self.split}"


@dataclass
class Gathered:
    """What all parts say together."""

    outputs: list[Output]  # in the sequence of sources, then of languages and splits
    bad: dict[int, int]  # source -> records that became no document
    examples: list[str]  # the places of the first few
    bases: list[list[int]]  # of each unit: records of an input before each stretch


@dataclass
class _Open:
    tokens: int = 0
    documents: int = 0
    empty: int = 0
    utf8_bytes: int | None = 0
    largest: int = 0
    seconds: float = 0.0
    placed: list[Placed] = field(default_factory=list)


def gather(job: Job) -> Gathered:
    """The outputs of a job whose units are all done. ReadError where a part is missing or damaged.

    ConvertError where one split would come from two sources.
    """
    folder = Path(job.parts)
    names = part_names(folder)
    open_outputs: dict[tuple[int, str, str], _Open] = {}
    bad: dict[int, int] = {}
    records: list[dict[int, int]] = [{} for _ in job.units]
    problems: list[tuple[int, int, int, str]] = []  # unit, stretch, record, reason
    counts = [0] * len(job.units)
    finished = [False] * len(job.units)
    for name in names:
        part = read_part(folder / name)
        unit = part.unit
        for problem in part.problems:
            problems.append((unit, problem.stretch, problem.record, problem.reason))
        for stretch, count in part.records.items():
            records[unit][stretch] = records[unit].get(stretch, 0) + count
        for source, count in part.bad.items():
            bad[source] = bad.get(source, 0) + count
        finished[unit] = part.last and part.number == counts[unit]
        counts[unit] += 1
        _place_contents(open_outputs, name, part)
    missing = [unit for unit, done in enumerate(finished) if not done]
    if missing:
        raise ReadError(f"{folder}: parts of unit {missing[0]} are missing; convert again to make them")
    bases = _bases(job, records)
    outputs = [Output(*target, **vars(one)) for target, one in sorted(open_outputs.items())]
    _check_once(job, outputs)
    return Gathered(outputs, bad, _examples(job, bases, problems), bases)


def _place_contents(outputs: dict[tuple[int, str, str], _Open], name: str, part: Part) -> None:
    weight = sum(content.tokens + content.documents for content in part.contents)
    for number, content in enumerate(part.contents):
        one = outputs.setdefault((content.source, content.language, content.split), _Open())
        one.placed.append(Placed(name, number, part.unit, content.tokens, content.documents, one.tokens, one.documents))
        one.tokens += content.tokens
        one.documents += content.documents
        one.empty += content.empty
        known = one.utf8_bytes is not None and content.utf8_bytes is not None
        one.utf8_bytes = one.utf8_bytes + content.utf8_bytes if known else None
        one.largest = max(one.largest, content.largest)
        one.seconds += part.seconds * (content.tokens + content.documents) / weight


def _bases(job: Job, records: list[dict[int, int]]) -> list[list[int]]:
    """Records of its input before each stretch: stretches of one input follow each other in the units."""
    seen: dict[tuple[int, int], int] = {}
    bases = []
    for unit, stretches in enumerate(job.units):
        bases.append([])
        for place, stretch in enumerate(stretches):
            found = (stretch.source, stretch.input)
            bases[-1].append(seen.get(found, 0))
            seen[found] = seen.get(found, 0) + records[unit].get(place, 0)
    return bases


def _examples(job: Job, bases: list[list[int]], problems: list[tuple[int, int, int, str]]) -> list[str]:
    messages = []
    for unit, place, record, reason in sorted(problems)[:EXAMPLES]:
        found = job.input(job.units[unit][place])
        messages.append(f"{place_of(found, bases[unit][place] + record)}: {reason}")
    return messages


def _check_once(job: Job, outputs: list[Output]) -> None:
    owners: dict[str, int] = {}
    for output in outputs:
        other = owners.setdefault(output.name, output.source)
        if other != output.source:
            raise ConvertError(
                f"{output.name} comes from two sources, {job.sources[other].data} and "
                f"{job.sources[output.source].data}; name all files of a split in one"
            )


def save_layouts(folder: Path, gathered: Gathered) -> None:
    """Leaves what workers need to know, each in a file of its own."""
    (folder / LAYOUTS).mkdir(exist_ok=True)
    with written_whole(folder / BASES) as file:
        file.write(msgspec.json.encode(gathered.bases))
    for number, output in enumerate(gathered.outputs):
        with written_whole(folder / LAYOUTS / f"{number}.json") as file:
            file.write(msgspec.json.encode(output))


def load_bases(folder: str) -> list[list[int]]:
    return load_file(Path(folder, BASES), list[list[int]])


def load_output(folder: str, number: int) -> Output:
    return load_file(Path(folder, LAYOUTS, f"{number}.json"), Output)
