/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The flow of a packet: a hash of addresses, ports and protocol, which reveals none of them without
 * the key. The hash is SipHash-2-4 (Aumasson and Bernstein, 2012) of 16 or 40 bytes.
 */
#ifndef WEIR_FLOW_H
#define WEIR_FLOW_H

#include "kernel.h"

struct sip {
	u64 a, b, c, d;
};

static __always_inline u64 left(u64 x, int by)
{
	return x << by | x >> (64 - by);
}

static __always_inline void sip_round(struct sip *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = left(s->b, 13) ^ s->a;
	s->d = left(s->d, 16) ^ s->c;
	s->a = left(s->a, 32);
	s->c += s->b;
	s->a += s->d;
	s->b = left(s->b, 17) ^ s->c;
	s->d = left(s->d, 21) ^ s->a;
	s->c = left(s->c, 32);
}

static __always_inline void sip_word(struct sip *s, u64 word)
{
	s->d ^= word;
	sip_round(s);
	sip_round(s);
	s->a ^= word;
}

static __always_inline u64 sip_of(const u64 key[2], const u64 words[5], int count)
{
	struct sip s = {
		key[0] ^ 0x736f6d6570736575ULL,
		key[1] ^ 0x646f72616e646f6dULL,
		key[0] ^ 0x6c7967656e657261ULL,
		key[1] ^ 0x7465646279746573ULL,
	};
	int i;

	for (i = 0; i < 5; i++)
		if (i < count)
			sip_word(&s, words[i]);
	sip_word(&s, (u64)count * 8 << 56);
	s.c ^= 0xff;
	sip_round(&s);
	sip_round(&s);
	sip_round(&s);
	sip_round(&s);
	return s.a ^ s.b ^ s.c ^ s.d;
}

enum {
	IPPROTO_TCP = 6,
	IPPROTO_UDP = 17,
	IPPROTO_DCCP = 33,
	IPPROTO_SCTP = 132,
	IPPROTO_UDPLITE = 136,
};

/* These protocols have their ports in the first four bytes. */
static __always_inline bool has_ports(u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_DCCP ||
	       protocol == IPPROTO_SCTP || protocol == IPPROTO_UDPLITE;
}

static __always_inline u32 ports_at(u64 header)
{
	struct udphdr *h = SEE(udphdr, header);

	return (u32)h->source << 16 | h->dest;
}

static __always_inline u8 first_byte(u64 address)
{
	u64 word = word_at((const void *)address);

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return word >> 56;
#else
	return word;
#endif
}

/*
 * Returns the hash, and the traffic class in `tos`. All packets of an EtherType other than IP form
 * one flow.
 */
static __always_inline u64 flow_of(const u64 key[2], u64 packet, u8 *tos)
{
	u64 ip = POINTER(sk_buff, packet, head) + SEE(sk_buff, packet)->network_header;
	u16 ethertype = bpf_ntohs(SEE(sk_buff, packet)->protocol);
	u64 words[5] = {};
	u8 protocol, first;
	u32 ports = 0;

	*tos = 0;
	if (ethertype == 0x0800) {
		struct iphdr *h = SEE(iphdr, ip);

		first = first_byte(ip);
		protocol = h->protocol;
		/* Only the first fragment of a packet has ports, so the ports of fragments are not used. */
		if (has_ports(protocol) && !(bpf_ntohs(h->frag_off) & 0x3fff))
			ports = ports_at(ip + (first & 0xf) * 4);
		*tos = h->tos;
		words[0] = (u64)h->saddr << 32 | h->daddr;
		words[1] = (u64)ports << 32 | ethertype << 8 | protocol;
		return sip_of(key, words, 2);
	}
	if (ethertype == 0x86dd) {
		u64 source = ip + bpf_core_field_offset(struct ipv6hdr, saddr);
		u64 destination = ip + bpf_core_field_offset(struct ipv6hdr, daddr);

		protocol = SEE(ipv6hdr, ip)->nexthdr;
		if (has_ports(protocol))
			ports = ports_at(ip + 40);
		first = first_byte(ip);
		*tos = first << 4 | first_byte(ip + 1) >> 4;
		words[0] = word(source);
		words[1] = word(source + 8);
		words[2] = word(destination);
		words[3] = word(destination + 8);
		words[4] = (u64)ports << 32 | (u32)ethertype << 8 | protocol;
		return sip_of(key, words, 5);
	}
	words[0] = ethertype;
	return sip_of(key, words, 2);
}

#endif
