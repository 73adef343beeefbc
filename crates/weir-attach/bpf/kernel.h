/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The types of the kernel's programming interface that the programs use, and the settings that Weir
 * shares with them. `programs.rs` has the settings in the same order.
 */
#ifndef WEIR_ATTACH_KERNEL_H
#define WEIR_ATTACH_KERNEL_H

#include "base.h"

enum {
	BPF_F_INGRESS = 1 << 0,
	BPF_F_CURRENT_NETNS = -1,
};

enum {
	TCX_NEXT = -1,
	TCX_PASS = 0,
	TCX_DROP = 2,
};

/* The first fields of a packet that programs may access. */
struct __sk_buff {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol;
};

struct bpf_sock_tuple {
	union {
		struct {
			__be32 saddr;
			__be32 daddr;
			__be16 sport;
			__be16 dport;
		} ipv4;
		struct {
			__be32 saddr[4];
			__be32 daddr[4];
			__be16 sport;
			__be16 dport;
		} ipv6;
	};
};

typedef struct {
	u32 val;
} FROM_KERNEL kuid_t;

struct kernfs_node {
	u64 id;
} FROM_KERNEL;

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[];
} FROM_KERNEL;

struct sock_cgroup_data {
	struct cgroup *cgroup;
} FROM_KERNEL;

struct sock {
	struct sock_cgroup_data sk_cgrp_data;
	kuid_t sk_uid;
} FROM_KERNEL;

enum {
	PACKET_HOST = 0,
	ETHERNET = 14,
	ETH_P_IP = 0x0800,
	ETH_P_ARP = 0x0806,
	ETH_P_IPV6 = 0x86dd,
	FRAGMENT_OFFSET = 0x1fff,
	TCP = 6,
	UDP = 17,
	ICMPV6 = 58,
	SCTP = 132,
	ROUTER_SOLICITATION = 133,
	REDIRECT = 137,
	LEVELS = 255,	      /* the deepest level of a control group that programs can read */
	SEARCHED_LEVELS = 32, /* the levels among which programs search the selected group */
};

struct address {
	__be32 words[4];
};

struct prefix {
	u32 length;
	struct address address;
};

struct ipv4 {
	u8 version_length;
	u8 tos;
	__be16 total;
	__be16 id;
	__be16 fragment;
	u8 ttl;
	u8 protocol;
	__be16 checksum;
	__be32 source;
	__be32 destination;
};

struct ipv6 {
	__be32 version;
	__be16 payload;
	u8 next;
	u8 hops;
	struct address source;
	struct address destination;
};

struct packet {
	struct address source;
	struct address destination;
	struct {
		__be16 source;
		__be16 destination;
	} ports;
	u8 protocol;
	bool ipv4;
	bool has_ports;
};

enum {
	SELECT_ADDRESS = 1,
	SELECT_PORT = 2,
	SELECT_CGROUP = 4,
	SELECT_USER = 8,
	LOOPBACK = 16,
	SELECTIVE = SELECT_ADDRESS | SELECT_PORT | SELECT_CGROUP | SELECT_USER | LOOPBACK,
};

/* The highest byte of Weir's marks. The other bits are the interface index of the target's TAP. */
#define MARK_FAMILY 0x57000000
#define MARK_FAMILY_MASK 0xff000000

struct settings {
	u64 alive_until; /* monotonic time in ns; 0 while Weir does not intend to shape */
	u64 flags;
	u64 mark;
	u64 device; /* interface index of the shaped interface */
	u64 target_tap;  /* receives what the target sends; Weir writes here what the target receives */
	u64 network_tap; /* receives what the network sends; Weir writes here what the target sends */
	u64 cgroup;
	u64 level;  /* depth of the group below the root of all groups; 0 if it is not known */
	u64 user;
	u64 missed; /* packets that passed because the heartbeat was late; written by the programs */
};

#endif
