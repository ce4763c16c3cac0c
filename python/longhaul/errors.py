"""Errors: a class for each status of the engine, with the engine's message."""


class Error(Exception):
    """A call that failed. `status` is the exit code that the program has for it, `trace` the places in the source."""
    status = 8

    def __init__(self, message, trace=""):
        super().__init__(message)
        self.trace = trace


class UsageError(Error, ValueError):
    """An argument that is invalid, or a call out of order."""
    status = 2


class InputError(Error, ValueError):
    """A bad or missing input file: model source, prompt, tokenizer."""
    status = 3


class FileError(Error, ValueError):
    """A bad checkpoint, cache, trace or other file of Longhaul."""
    status = 4


class OutOfMemory(Error, MemoryError):
    """The run does not fit in memory; nothing was computed."""
    status = 5


class WriteError(Error, OSError):
    """A file cannot be written."""
    status = 6


class CommError(Error):
    """Communication between ranks failed."""
    status = 7


class InternalError(Error):
    """A fault in Longhaul."""
    status = 8


class Interrupted(Error):
    """The program ended a call by a callback. `completion` has the answers so far."""
    status = 75
    completion = None


BY_STATUS = {cls.status: cls for cls in (UsageError, InputError, FileError, OutOfMemory, WriteError, CommError, InternalError,
                                         Interrupted)}
