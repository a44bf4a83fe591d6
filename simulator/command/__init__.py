"""The command: from words to a task, from its outcome to a folder and a text. Hydra, signals, progress, printing."""
