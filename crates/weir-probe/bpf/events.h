/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The interface between `events.bpf.c` and its reader. The reader's copy is in
 * `src/kernel/records.rs`; the loader compares the sizes.
 */
#ifndef WEIR_EVENTS_H
#define WEIR_EVENTS_H

#define MAX_WATCHED 1024 /* slots for devices */
#define NEIGHBOURS 8     /* a device is in one of this many consecutive slots, starting at its first slot */

enum {
	KIND_ENQUEUE = 0,
	KIND_DEQUEUE = 1,
	KIND_RESET = 2,   /* the discipline is about to discard its packets */
	KIND_DESTROY = 3, /* the discipline ends */
	/* Written only when packets are recorded, each with a `struct packet_record`: */
	KIND_ARRIVE = 4, /* the device is about to hand the packet to its discipline */
	KIND_LEAVE = 5,  /* the discipline has released the packet */
	KIND_SENT = 6,   /* the device hands the packet to its driver */
	KIND_FREE = 7,   /* the packet is dropped, by the discipline or elsewhere */
};

/*
 * One event, which fills a cache line. It contains the whole identity of a discipline, because
 * addresses are reused.
 */
struct record {
	u64 time;    /* CLOCK_MONOTONIC, ns */
	u64 address; /* of the discipline */
	u64 ops;     /* address of the operations of its kind */
	u32 ifindex;
	u32 netns;
	u32 handle;
	u32 parent;
	u32 qlen; /* after the event, like the next three fields */
	u32 backlog;
	u32 drops;
	u32 requeues;
	u32 bytes;   /* of the packets of this event */
	u16 packets; /* for an enqueued offload train: the number of packets into which it may be cut */
	u8 kind;
	u8 flags; /* SLOT_* */
};

/* An event of one packet, in place of a `struct record`. `kind` and the device have the same offsets. */
struct packet_record {
	u64 time;
	u64 packet; /* address, which identifies the packet until it is freed */
	u64 flow;   /* hash with the key of this recording */
	u32 ifindex;
	u32 netns;
	u64 unused[2];
	u32 unused_too;
	u32 segment; /* of an offload train: bytes of each wire packet but the last */
	u32 bytes;   /* of all wire packets, with their headers */
	u16 packets; /* number of wire packets */
	u8 kind;
	u8 tos; /* traffic class */
};

/*
 * The positions of both sides in a region of the records: the program writes a record at the head,
 * and the reader reads one at the tail. Each processor has two regions. The second one is for
 * interrupts that arrive while a program writes to the first one.
 */
struct region {
	u64 head;
	u64 lost; /* events of the processor that found no region, or a full one */
	u64 busy; /* number of programs that are writing: more than one during an interrupt */
	u64 unused[5];
	u64 tail;
	u64 others_unused[7];
};

struct recorder {
	/* Written by the reader. */
	u64 mask; /* records of a region, minus one */
	u64 ops;  /* input of `name_kind`: address of the operations */
	u64 near; /* number of slots to search for a device, starting with its first slot */
	/* Written by the program. */
	u8 kind[16]; /* output of `name_kind`: the name of the kind */
	u64 elsewhere; /* events on processors without a region */
	/* Written by the reader. */
	u64 with_packets; /* whether to record the packets of each dequeue */
	u64 key[2];       /* of the hashes of flows */
	u64 cpus;         /* number of processors with a region */
	/* netns in the upper half, ifindex in the lower; 0 is free. */
	u64 watched[MAX_WATCHED];
};

#endif
