"""The nouns everyone uses: messages, guarantees, topics, filters, node ids and the wire codec."""
