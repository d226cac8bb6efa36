"""outputs -> complete splits in the store: claimed, assembled by all workers, checked, and put in their place.

What is there already, of this job or of others, stays as it is until the new split is complete (`store.claim`). A split
that was put in its place is noted first, so that a run which was killed just then is not taken for another's work.

Cost: some 50 ms a split beside its assembly (`assemble`); in Zarr, files are made one by one.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from flatmix.convert import assemble
from flatmix.convert.engine import Engine
from flatmix.convert.job import Job, splits_of
from flatmix.convert.outputs import Gathered, Output
from flatmix.convert.parts import written_whole
from flatmix.convert.reading import holds_tokens
from flatmix.convert.staging import JOB, PUBLISHED, Staging, staging_root
from flatmix.convert.summary import LanguageSummary
from flatmix.errors import StoreError
from flatmix.store import format as layout
from flatmix.store.arrays import array_metadata
from flatmix.store.claim import Claim, remove_group
from flatmix.store.folders import create_array, create_language, create_store, is_leftover, write_attributes
from flatmix.store.locks import locked
from flatmix.store.metadata import Group, read_group
from flatmix.store.shards import remove_leftovers
from flatmix.store.split import load_split, place_of

WAVE = 128  # splits that are written at the same time; each holds three files open


def published(folder: Path) -> dict[str, str]:
    """The splits that this job has completed, by "language/split", and the digest of each."""
    notes = folder / PUBLISHED
    if not notes.is_dir() or not (folder / JOB).exists():  # without a job, all is done
        return {}
    return dict((notes / name).read_text("utf-8").split("\n") for name in sorted(os.listdir(notes)))  # noqa: PTH208


def write_outputs(
    staging: Staging, gathered: Gathered, engine: Engine, report: Callable[[int], None]
) -> list[LanguageSummary]:
    """Writes all splits of the job. `report` is told of values written, now and then."""
    for name in (assemble.MARKS, PUBLISHED):
        (staging.folder / name).mkdir(exist_ok=True)
    if gathered.outputs:
        with _alone_with(staging.job, Path(staging.job.store)):
            create_store(staging.job.store, staging.job.zarr_format)
    notes = published(staging.folder)
    digests: dict[int, str] = {}
    for first in range(0, len(gathered.outputs), WAVE):
        numbers = range(first, min(first + WAVE, len(gathered.outputs)))
        done = {number: notes.get(gathered.outputs[number].name) for number in numbers}
        digests |= _write_wave(staging, gathered.outputs, done, engine, report)
    return [_summary(staging.job, gathered, output, digests[number]) for number, output in enumerate(gathered.outputs)]


def _write_wave(
    staging: Staging,
    outputs: Sequence[Output],
    noted: dict[int, str | None],
    engine: Engine,
    report: Callable[[int], None],
) -> dict[int, str]:
    """Writes these outputs, all but those that are there with the digest that was noted. The digests of all."""
    digests: dict[int, str] = {}
    claims: dict[int, Claim] = {}
    with ExitStack() as held:
        for number, digest in noted.items():
            if digest is not None and _is_published(staging.job, outputs[number], digest):
                digests[number] = digest
                continue
            claims[number] = _claim(staging, outputs[number])
            held.callback(claims[number].release)
            _prepare(staging, number, outputs[number], claims[number])
        pieces = [piece for number in claims for piece in assemble.pieces_of(number, outputs[number])]
        left = [piece for piece in pieces if not assemble.mark_path(staging.folder, piece).exists()]
        places = {number: str(claim.folder) for number, claim in claims.items()}
        tasks = list(assemble.tasks(outputs, left))
        calls = [({number: places[number] for number, _, _ in task}, task) for task in tasks]
        size = sum(4 * outputs[number].tokens + 20 * outputs[number].documents for number in claims)
        engine.run(str(staging.folder), assemble.write_pieces, calls, size, lambda: report(0))
        for number, claim in claims.items():
            digests[number] = _finish(staging, number, outputs[number], claim)
            report(outputs[number].tokens)
    return digests


def _place(job: Job, output: Output) -> str:
    return place_of(job.store, output.language, output.split)


def _split_folder(job: Job, output: Output) -> Path:
    return Path(job.store, output.language, output.split)


def _is_published(job: Job, output: Output, digest: str) -> bool:
    """Whether an earlier run of this job has put a split in its place."""
    folder = _split_folder(job, output)
    if folder.with_name(layout.name_beside(output.split, layout.NEW)).exists():
        return False
    group = read_group(folder, job.zarr_format)
    attribute = {} if group is None else group.attributes.get("flatmix") or {}
    if attribute.get("complete") is not True or attribute.get("digest") != digest:
        return False
    old = folder.with_name(layout.name_beside(output.split, layout.OLD))
    if old.exists():  # that run was killed before it had removed what it replaced
        remove_group(old)
    return True


def _claim(staging: Staging, output: Output) -> Claim:
    job, folder = staging.job, _split_folder(staging.job, output)
    with _alone_with(job, folder.parent):
        create_language(folder.parent, job.zarr_format)
    return Claim(folder, _place(job, output), job.replace, job.zarr_format, owner=staging.folder.name)


@contextmanager
def _alone_with(job: Job, group: Path) -> Iterator[None]:
    """While no other conversion makes a group; what one that was killed has left of making this one is removed."""
    with locked(staging_root(job.store), wait=True):
        yield
        for left in filter(is_leftover, os.listdir(group)):  # noqa: PTH208
            if left.endswith(".partial"):
                (group / left).unlink()


def _prepare(staging: Staging, number: int, output: Output, claim: Claim) -> None:
    """Makes the arrays that are not there as they should be; of these, nothing counts as written."""
    for array in assemble.ARRAYS:
        length, folder = assemble.array_length(output, array), claim.folder / array
        if claim.resumed and _is_there(staging.job, output, claim.folder, array, length):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        for piece in range(layout.piece_count(length)):
            assemble.mark_path(staging.folder, (number, array, piece)).unlink(missing_ok=True)
        create_array(
            folder, (length,), np.dtype(layout.DTYPES[array]), staging.job.zarr_format, staging.job.compression
        )


def _is_there(job: Job, output: Output, folder: Path, array: str, length: int) -> bool:
    try:
        array_metadata(folder, array, (length,), _place(job, output), job.zarr_format)
    except StoreError:
        return False
    return True


def _finish(staging: Staging, number: int, output: Output, claim: Claim) -> str:
    """Checks a split all of whose pieces are written, says that it is complete, and puts it in its place."""
    job, place = staging.job, _place(staging.job, output)
    proof = b"".join(
        bytes.fromhex(assemble.mark_path(staging.folder, piece).read_text())
        for piece in assemble.pieces_of(number, output)
        if piece[1] in (layout.ENCODED_TOKENS, layout.SEQ_STARTS)
    )
    digests = np.frombuffer(proof, np.uint8).reshape(-1, layout.DIGEST_BYTES)
    shutil.rmtree(claim.folder / layout.PIECE_DIGESTS, ignore_errors=True)
    create_array(claim.folder / layout.PIECE_DIGESTS, digests.shape, digests.dtype, job.zarr_format, job.compression)[
        :
    ] = digests
    remove_leftovers(claim.folder)
    attributes = layout.complete_attributes(
        largest=output.largest,
        tokens=output.tokens,
        documents=output.documents,
        utf8_bytes=output.utf8_bytes,
        tokenizer=job.identity,
        proof=proof,
        source=source_attribute(job, output.source),
    )
    group = Group(job.zarr_format, attributes)
    split = load_split(job.store, output.language, output.split, group, claim.folder)
    if split.piece_digests().tobytes() != proof:
        raise StoreError(f"{layout.PIECE_DIGESTS} of {place} does not read back as it was written")
    there = read_group(claim.folder, job.zarr_format)
    if there is None or there.attributes != layout.incomplete_attributes(staging.folder.name):
        raise StoreError(f"{place} was changed by another process while it was written; it is left as it is")
    with written_whole(staging.folder / PUBLISHED / str(number)) as file:
        file.write(f"{output.name}\n{split.digest}".encode())
    write_attributes(claim.group, attributes)
    claim.publish()
    claim.release()
    return split.digest


def source_attribute(job: Job, number: int) -> dict[str, Any]:
    """What a split keeps of where it came from: nothing of places, dates or workers."""
    source = job.sources[number]
    options: dict[str, Any] = {}
    if any(not holds_tokens(found) for found in source.inputs):
        options |= {"text_field": source.fields.text, "language_field": source.fields.language}
    if job.hold_out:
        options["hold_out"] = job.hold_out
    return {"data": source.data, "files": [found.name for found in source.inputs], "options": options}


def _summary(job: Job, gathered: Gathered, output: Output, digest: str) -> LanguageSummary:
    source = job.sources[output.source]
    main = output.split == splits_of(source.split, job.hold_out)[0]
    bad = gathered.bad.get(output.source, 0) if source.language is not None and main else 0
    return LanguageSummary(
        output.language,
        output.split,
        output.documents,
        output.empty,
        bad,
        output.tokens,
        output.utf8_bytes,
        output.seconds,
        digest,
    )
