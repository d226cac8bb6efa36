"""`flatmix convert`: what a user names -> splits of a store, and a table of what came of them."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from flatmix.cli.conversion import print_left_out, print_summary, watched
from flatmix.cli.options import without_none
from flatmix.cli.output import print_json
from flatmix.errors import ConvertError


def convert(
    store: Annotated[str, typer.Argument(help="Folder of the store; made, or added to.", show_default=False)],
    files: Annotated[
        list[str] | None, typer.Argument(help="With --language-field: what is converted.", show_default=False)
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILES", help="A language, or LANGUAGE/SPLIT, and what is converted; may be repeated."
        ),
    ] = None,
    language_field: Annotated[
        str | None, typer.Option(metavar="FIELD", help="The field of each record in FILES that names its language.")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A conversion file (.toml) that names languages, files and settings; options go before its settings.",
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="The split to write, where a language is given without. [default: train]")
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help='"bytes" (256 ids, built in), the path of a tokenizer\'s file, or hf:NAME, one of the Hugging Face '
            "Hub. Files of tokens need none. [default: bytes]"
        ),
    ] = None,
    text_field: Annotated[
        str | None, typer.Option(help="The field or column that holds the text. [default: text]")
    ] = None,
    begin_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Put this token (its text, or its id) before every document.")
    ] = None,
    end_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Put this token (its text, or its id) after every document.")
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="What files of tokens do not say of themselves: format, type (uint16, uint32), and the id "
            "document_end or document_start; may be repeated.",
        ),
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Download data sets of the hub first, instead of streaming them.")
    ] = False,
    hold_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPLIT=SHARE",
            help="Put this share of the documents, chosen by their content, in that split instead; may be repeated.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End at the first bad record, instead of counting it.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Write splits anew that are there already; each old one stays until the new is complete."
        ),
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Drop what an interrupted conversion has done, and begin anew.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes at work. [default: as many as suit the work and the machine]")
    ] = None,
    backend: Annotated[
        str, typer.Option(help='"local", or "dask" or "ray": a cluster, to which all paths must be the same.')
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Where the scheduler of Dask or the cluster of Ray is, as in tcp://HOST:8786.")
    ] = None,
    staging: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Where to keep what is done until the end. [default: STORE.staging, beside the store]"
        ),
    ] = None,
    zarr_format: Annotated[
        int | None,
        typer.Option(
            help="The version of Zarr; 2 is for readers that know no other, and has no checksums. [default: 3]"
        ),
    ] = None,
    compression: Annotated[
        str | None,
        typer.Option(
            help='"fast", or "small": 15 to 30 % smaller, at nearly twice the CPU time of reading. [default: fast]'
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Convert documents to a flat-tokens store.

    FILES are a file, a folder (all files in it and below), a glob, an address (s3://, gs://, https://, hf://), or
    hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT, a data set of the Hugging Face Hub, which is streamed. Files of a
    folder or glob are sorted by name; links are followed, and hidden files, whose names begin with a dot, are skipped.
    Anything else that cannot be read ends the command: names, settings and the first records of all input are checked
    before any work.

    Read are JSON lines (.jsonl, .json, .ndjson: an object a line) and plain text (.txt: a file is one document), in
    UTF-8, plain or with .gz or .zst behind; Parquet (.parquet); data sets that were saved with save_to_disk; and, on
    this machine, files of tokens, which stay as they are: of nanoGPT and llm.c (.bin), shards with an index.json,
    Megatron (.bin with .idx), and older flat-tokens stores.

    The tokens of a document are those of its text and no others, unless --begin-token or --end-token adds one. An
    empty text is a document without tokens. A bad record (broken, or its text null or missing) is counted and left out,
    and the places of the first are printed; --strict makes it an error.

    Whatever ends the work, what was done is kept, in STORE.staging or --staging, and the same command goes on with it;
    the store is the same, to the bit, as without a break, and with however many workers. A split is there when it is
    complete, and not before.

    A conversion file holds tokenizer, begin_token, end_token, compression, zarr_format and strict, a table [hold_out],
    and tables [[source]] with language (or language_field) and data, and perhaps split, text_field, tokens and
    download. Its relative paths count from its folder.

    \b
    Examples:
      flatmix convert corpus.zarr --language en=texts/en --tokenizer tokenizer.json
      flatmix convert corpus.zarr --language sw='sw-*.jsonl.gz' --language sw=more.txt --language sw/validation=held
      flatmix convert corpus.zarr --language-field lang data.jsonl --split validation
      flatmix convert corpus.zarr --language en=hf:wikimedia/wikipedia:20231101.en --hold-out validation=0.01
      flatmix convert corpus.zarr --language code=train.bin --tokens type=uint16 --tokens document_end=50256
      flatmix convert corpus.zarr --config conversion.toml --workers 32
    """
    named = {"--language": language, "--language-field": language_field, "FILES": files}
    with watched(f"{store.rstrip('/')}.staging" if staging is None else staging, restart) as report:
        from flatmix.convert import EmptyInputError  # here: an interruption is told from now on
        from flatmix.convert import convert as convert_documents
        from flatmix.convert.engine import Engine
        from flatmix.store.format import check_compression

        Engine(workers, backend, address)  # checks them
        of_sources = without_none(
            split=split,
            text_field=text_field,
            tokens=token_settings(tokens) if tokens else None,
            download=download or None,
        )
        settings = without_none(
            tokenizer=tokenizer,
            begin_token=begin_token,
            end_token=end_token,
            hold_out=_shares(hold_out) if hold_out else None,
            strict=strict or None,
            zarr_format=zarr_format,
            compression=compression,
        )
        if config is not None:
            sources, settings = _configured(config, named, of_sources, settings)
        else:
            sources = _sources(language or [], files or [], language_field)
            settings |= of_sources | without_none(language_field=language_field)
        check_compression(settings.get("compression", "fast"))
        empty = None
        try:
            summary = convert_documents(
                store,
                sources,
                **settings,
                replace=replace,
                restart=restart,
                workers=workers,
                backend=backend,
                address=address,
                staging=staging,
                progress=report,
            )
        except EmptyInputError as error:
            empty, summary = error, error.summary
    if as_json:
        print_json(summary.as_dict())
    elif summary.languages:
        print_summary(summary)
    print_left_out(summary)
    if empty is not None:
        raise empty


def files_of_language(given: str) -> tuple[str, str]:
    """NAME=FILES -> both. ConvertError where one is missing."""
    name, _, files = given.partition("=")
    if not (name and files):
        raise ConvertError(f"--language {given}: say which files, as in --language en=FILES")
    return name, files


def token_settings(given: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE, ids as integers -> settings of files of tokens. ConvertError for what is no such pair."""
    settings: dict[str, Any] = {}
    for one in given:
        key, _, value = one.partition("=")
        if not (key and value) or key in settings:
            raise ConvertError(f"--tokens {one}: write KEY=VALUE, as in --tokens type=uint16, once for each key")
        settings[key] = int(value) if value.isascii() and value.isdigit() else value
    return settings


def _configured(
    config: str, named: dict[str, Any], of_sources: dict[str, Any], settings: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The sources and settings of a conversion file, with the options that were given in place of its own."""
    from msgspec.structs import asdict, replace

    from flatmix.convert.config import load_config

    for name, given in named.items():
        if given:
            raise ConvertError(f"--config {config} says what is converted: leave out {name}, or the file")
    read = asdict(load_config(config))
    return [replace(source, **of_sources) for source in read.pop("sources")], read | settings


def _sources(
    languages: Sequence[str], files: Sequence[str], language_field: str | None
) -> dict[str, list[str]] | list[str]:
    if language_field is not None:
        if languages:
            raise ConvertError("give --language or --language-field, not both; a second run can add to the store")
        if not files:
            raise ConvertError("--language-field needs files, after its field: --language-field lang data.jsonl")
        return list(files)
    if files:
        raise ConvertError(f"which language is {files[0]}? Say --language NAME={files[0]}, or give --language-field")
    sources: dict[str, list[str]] = {}
    for name, pattern in map(files_of_language, languages):
        sources.setdefault(name, []).append(pattern)
    if not sources:
        raise ConvertError(
            "nothing to convert: give --language NAME=FILES, --language-field FIELD FILES, or --config FILE"
        )
    return sources


def _shares(given: Sequence[str]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for one in given:
        split, _, share = one.partition("=")
        try:
            value = float(share)
        except ValueError:
            split = ""
        if not split or split in shares:
            raise ConvertError(f"--hold-out {one}: write SPLIT=SHARE, as in validation=0.01, once for each split")
        shares[split] = value
    return shares
