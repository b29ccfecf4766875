"""What the gateway keeps: knowledge, the ledger of tool calls, the audit."""
