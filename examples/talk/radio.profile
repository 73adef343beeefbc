# Extra air-time of a packet: mostly framing, now and then contention.
name radio
samples 100
loss-level 1.0
prob delay
0.0 1
0.5 2
0.9 5
1.0 40
