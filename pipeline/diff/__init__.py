"""What changed between two reports: two Git revisions, two folders, or a revision and the working tree.

`places` finds the two sides, `snapshot` reads them, also those of older schemas, the other modules compare one topic
each, and `render` writes the result for a terminal or a pull request.
"""
