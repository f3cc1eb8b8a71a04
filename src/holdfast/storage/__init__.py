"""Where things are kept: traces and recordings as files, the state of brokers, stores for repositories."""
