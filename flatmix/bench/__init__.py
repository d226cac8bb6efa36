"""settings -> figures, each with its goal and with what plain memory-mapped files reach beside it.

Read the modules in the sequence in which a measurement goes through them:

    settings   sizes of everything, for a full run and for a quick one
    corpus     a seed -> the same tokens as a store and as raw files
    floor      slot -> batch, from the raw files alone: what a loader is compared with
    slow       a store whose every read takes a while
    clock      something to repeat -> seconds
    speed, start, limits   settings -> what was measured
    child      the same for what only a new process can tell
    peers      other loaders, each in an environment of its own -> their figures
    figures    the table of all figures: their goals, and what measures them
    run        the figures that are asked for, one after another -> a report
    report, plot           a report -> JSON, Markdown, a table, a picture

Nothing is downloaded, and nothing is printed.
"""
