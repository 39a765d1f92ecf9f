"""``python -m septran``: the commands, where the script is not on the path."""

from septran.cli import main

if __name__ == "__main__":
    main()
