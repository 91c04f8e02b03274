"""One module for each command: ``SUMMARY``, ``DESCRIPTION``, ``add_arguments(parser)`` and
``run(options, output)``.
"""
