"""The exceptions of flatmix that a caller may want to catch apart from others."""


class StoreError(ValueError):
    """A store, language or split that is not there, not complete or not in the format."""


class ReadError(OSError):
    """Tokens that could not be read; names the store, language, split, array, chunk and tokens."""


class StateError(ValueError):
    """A saved state that does not belong to this loader; names what differs, with both values."""


class ConvertError(ValueError):
    """Input that could not be converted, or an output folder that is not ours to write."""
