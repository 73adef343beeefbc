/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `events.bpf.c` and its reader share. The reader's copy is in `src/kernel/records.rs`; it compares the sizes when it loads. */
#ifndef WEIR_EVENTS_H
#define WEIR_EVENTS_H

#define MAX_WATCHED 1024 /* places for devices */
#define NEIGHBOURS 8     /* a device is at its own place or at one of those that follow */

enum {
	KIND_ENQUEUE = 0,
	KIND_DEQUEUE = 1,
	KIND_RESET = 2,   /* the discipline is about to throw away what it holds */
	KIND_DESTROY = 3, /* the discipline ends */
};

/* One event, a cache line. Everything that tells one discipline from another is in it: addresses are used again. */
struct record {
	u64 time;    /* CLOCK_MONOTONIC, ns */
	u64 address; /* of the discipline */
	u64 ops;     /* of its kind */
	u32 ifindex;
	u32 netns;
	u32 handle;
	u32 parent;
	u32 qlen; /* afterwards, as are all that follow */
	u32 backlog;
	u32 drops;
	u32 requeues;
	u32 bytes;
	u16 packets; /* of an offload train that is put in: those that it may be cut into */
	u8 kind;
	u8 flags; /* SLOT_* */
};

/* Where one processor stands in its part of the records: the program moves the head, the reader the tail. */
struct region {
	u64 head;
	u64 lost; /* events that found the part full */
	u64 unused[6];
	u64 tail;
	u64 others_unused[7];
};

struct recorder {
	/* Asked. */
	u64 mask; /* records of a processor, less one */
	u64 ops;  /* of `name_kind` */
	u64 near; /* how many places, from its own on, a device may be at */
	/* Answered. */
	u8 kind[16];
	u64 elsewhere; /* events on processors that have no part */
	/* Asked: netns in the upper half, ifindex in the lower, 0: free. */
	u64 watched[MAX_WATCHED];
};

#endif
