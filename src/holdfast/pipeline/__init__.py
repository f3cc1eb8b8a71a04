"""PySpark: the source, the sink and the jobs.

Importing a module of this room imports pyspark, which takes a while: other rooms import them where they use them.
"""

from importlib.util import find_spec

from holdfast.model.errors import ConfigError

if find_spec("pyspark") is None:
    raise ConfigError(
        "the data pipeline needs PySpark, which is not installed; run `make setup` or pip install 'holdfast[pipeline]'."
    )
