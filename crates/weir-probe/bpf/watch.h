/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The interface between `watch.bpf.c` and its reader. The reader's copy is in
 * `src/kernel/layout.rs`; the loader compares the sizes.
 */
#ifndef WEIR_WATCH_H
#define WEIR_WATCH_H

#define MAX_DEVICES 64
#define MAX_QUEUES 4096
#define MAX_RUNS 65536
#define GAPS 8192 /* number of bins of each width: 1 ns, 2^10 ns, 2^20 ns */

enum {
	CUT_NOTHING = 0,
	CUT_QUEUES = 1,  /* more queues than MAX_QUEUES */
	CUT_RUNS = 2,    /* the slice ended early: MAX_RUNS were written */
	CUT_DEVICES = 4, /* the hash chain of a device was longer than the search limit */
};

/* One queue: its address, its name, its counters, and the open run of equal readings. */
struct slot {
	u64 address;
	u64 lengths; /* the address to read: the discipline, its per-CPU counters, or the ring */
	u32 ifindex;
	u32 handle;
	u32 parent;
	u32 flags;
	u32 band;
	u32 drops;
	u32 requeues;
	u32 overlimits;
	u64 bytes;
	u64 packets;
	u8 kind[16];
	u64 first;
	u64 last;
	u32 count;
	u32 qlen;
	u32 backlog;
	u32 unused;
};

/* Consecutive equal readings of one queue. Times are CLOCK_MONOTONIC in ns. */
struct run {
	u64 first;
	u64 last;
	u32 slot;
	u32 count;
	u32 qlen;
	u32 backlog;
};

struct control {
	/* Written by the reader. */
	u64 slice;    /* maximum duration of a call, ns */
	u64 interval; /* ns between two readings, 0: as fast as possible */
	u64 most;     /* maximum number of readings in a call */
	u32 devices;
	u32 children; /* 0: only roots */
	u32 bands;    /* 0: a pfifo_fast is read only as a whole */
	u32 counters; /* 0: the counters are not read */
	/* Written by the program. */
	u32 queues; /* slots in use */
	u32 runs;   /* written runs of the last call */
	u32 cut;    /* CUT_* */
	u32 netns;
	u64 readings; /* in all calls */
	u64 missed;   /* scheduled moments without a reading, in all calls */
	u64 last;     /* time of the last reading, 0: none yet */
	u64 next;     /* next scheduled moment */
	u64 longest;  /* the longest gap, ns */
	u64 scratch;
	int ifindex[MAX_DEVICES]; /* written by the reader: the devices to read */
	u32 found[MAX_DEVICES]; /* number of queues of the device, 0: no such device */
};

/* Histogram of the time between consecutive readings. */
struct gaps {
	u32 fine[GAPS];
	u32 coarse[GAPS];
	u32 slow[GAPS];
};

#endif
