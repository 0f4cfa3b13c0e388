"""The command line of the compiler: the root group `gangplan`, and the options, loading and reporting of its commands.

Commands are imported when they are called, so that `--help` and a mistyped name answer at once. A command that needs
more than files lives in a higher layer and is added to the group there (`cli.add_lazy`).
"""
