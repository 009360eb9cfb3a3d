"""`python -m eutectic`: the same as the command `eutectic`."""

from eutectic.cli.main import app

if __name__ == "__main__":
    app(prog_name="eutectic")
