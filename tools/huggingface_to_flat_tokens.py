"""Files of documents -> a flat-tokens store; the same code as `flatmix convert`, for those who look for it here.

    python tools/huggingface_to_flat_tokens.py corpus.zarr --language en=data/en --tokenizer tokenizer.json

Input: a data set of the Hugging Face Hub (hf:NAME), one that was saved with `save_to_disk`, Parquet, or JSON lines with
the field "text" (what `Dataset.to_json(...)` writes); `--help` lists the rest. Output: the store, and a table with the
documents, tokens and bytes of each language. To expect: as many documents as the input has records, and 3 to 5 bytes a
token for English with a usual vocabulary (1 with `--tokenizer bytes`).
"""

import sys

from flatmix.cli import main

if __name__ == "__main__":
    main(["convert", *sys.argv[1:]])
