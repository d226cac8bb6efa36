"""An S3 of our own in this process, for as long as it is needed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

BUCKET = "corpus"


@contextmanager
def s3_server() -> Iterator[None]:
    """Runs an S3 with an empty bucket `corpus`, to which addresses s3://corpus/... lead meanwhile."""
    import fsspec
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        with mock.patch.dict(os.environ, settings):
            fsspec.get_filesystem_class("s3").clear_instance_cache()  # those that know another server
            fsspec.filesystem("s3").mkdir(BUCKET)
            yield
    finally:
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        server.stop()


def put(files: Mapping[str, bytes]) -> None:
    """Writes {name: content} into the bucket."""
    import fsspec

    bucket = fsspec.filesystem("s3")
    for name, content in files.items():
        bucket.pipe_file(f"{BUCKET}/{name}", content)
