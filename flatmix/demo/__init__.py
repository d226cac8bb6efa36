"""The demo: `texts` takes real text from an installed package, `train` is a training run, `run` joins and compares."""
