// What the two top bits of an edge's target say in a graph whose edges are marked (`edge_classes.cu` marks them).
//
//   bits  class         the edge from u to v                          what a search does with it
//   00    kOrdinary     none of those below                           relaxes it by an atomic minimum
//   01    kSelfLoop     u = v, and the weight is zero or more         nothing: it can lower no distance
//   10    kIntoLeaf     v is a leaf: see below                        relaxes it once, when all else is done
//   11    kSingle       v has no other incoming edges but those       relaxes it by a plain store
//
// A leaf has no outgoing edges but self-loops that lower nothing; or one edge into it and one out of it, both between
// it and the same vertex and of weight zero or more, so that who came the one way gains nothing on the way back. Either
// way no shortest path leads through it, unless it begins there.
//
// Where several fit, the first in this table is it: a self-loop before an edge into a leaf before a single one. A
// self-loop of negative weight is a negative cycle, so it is an edge like any other. Whether an edge leaves the source
// is known when there is one, and not marked.
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
