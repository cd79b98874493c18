"""How far to trust a policy: intervals, support, safety queries, bias bounds."""
