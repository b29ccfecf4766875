"""The four built-in tools, one a file: definition, prompt section and executable form."""
