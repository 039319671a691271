"""Sphinx's settings; .ci/site puts this folder's pages and the generated ones into one."""

project = "batchless"
author = "The batchless maintainers"
extensions = ["myst_parser", "breathe"]
html_theme = "furo"
html_title = "batchless"
html_show_copyright = False
# Summaries are read from the pages, which a page that is opened from disk may not.
html_show_search_summary = False
breathe_projects = {"batchless": "../xml"}
breathe_default_project = "batchless"
breathe_default_members = ("members",)
