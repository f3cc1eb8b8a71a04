"""Every order, not only random ones: all states of a small world, with the machines and judges of the simulator.

`plans` says which world, `worlds` what may happen next in it, `machines` what one machine makes of an input, `search`
goes through all of it, with the orders that need not be tried left out (`reduction`), `judging` asks the checkers, and
`stories` tells what was found, as a scenario that can be played again. `tasks` divides a search.
"""
