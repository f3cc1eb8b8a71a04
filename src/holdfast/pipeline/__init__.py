"""PySpark: the source, the sink and the jobs.

Importing a module of this room imports pyspark, which takes a while: other rooms import them where they use them.
"""
