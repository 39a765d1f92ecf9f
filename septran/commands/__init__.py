"""The commands of the command line, one file each; `septran.cli` lists them."""
