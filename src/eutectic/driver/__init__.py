"""compile(): picks the pipeline, runs it, links the executable, reports."""
