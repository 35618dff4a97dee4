"""`python -m queryshift` is the command `queryshift`, also where that is not on the path."""

from queryshift.cli import main

if __name__ == "__main__":
    main(prog_name="queryshift")
