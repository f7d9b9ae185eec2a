// The class of an edge, in the two top bits of its target (`edge_classes.cu` writes them).
//
//   bits  class         the edge from u to v                          what a search does with it
//   00    kOrdinary     none of those below                           relaxes it by an atomic minimum
//   01    kSelfLoop     u = v, and the weight is zero or more         nothing: it can lower no distance
//   10    kIntoLeaf     v is a leaf: see below                        relaxes it once, at the end
//   11    kSingle       v has no other incoming edge but those        relaxes it by a plain store
//                       that can lower nothing
//
// A leaf has no outgoing edges but self-loops that lower nothing. Or it has one incoming and one outgoing edge, both to
// the same vertex and of weight zero or more, so that a path that arrives gains nothing by going back. In either case
// no shortest path leads through a leaf, unless it begins there.
//
// If several classes fit, an edge has the first of: kSelfLoop, kIntoLeaf, kSingle. A self-loop of negative weight is a
// negative cycle, so it is an edge like any other. Edges that leave the source of a search are not marked: the source
// is not known here.
//
// Needs: vertices below 2^30 (`FrontierBellmanFord.supports`).
// Paper: Busato, Bombieri, "An efficient implementation of the Bellman-Ford algorithm for Kepler GPU architectures",
//     IEEE TPDS 2015, section 4.1.
#pragma once

#include "memory_order.cuh"

constexpr word32 kOrdinary = 0;
constexpr word32 kSelfLoop = 1;
constexpr word32 kIntoLeaf = 2;
constexpr word32 kSingle = 3;
constexpr word32 kClassShift = 30;
constexpr word32 kTargetMask = (1u << kClassShift) - 1;
