// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A layout algebra: index maths as values that can be composed, divided and multiplied, at compile
// time, in kernels and on the host alike.
//
// A layout maps the integers 0 .. size()-1 to offsets. Its leaves are (size, stride) pairs, the
// first of which varies fastest: index i has coordinates i % size0, i / size0 % size1, ..., and the
// offset is the sum of coordinate * stride. Leaves may be grouped into modes, and modes into modes
// again, which changes no offset but says what belongs together: (rows, columns), or (thread,
// value). This is the algebra that CuTe's documentation describes; the terms are its terms.
//
//     constexpr Layout tile = modes(leaf(64, 1), leaf(16, 64));        // 64 x 16, column-major
//     constexpr Layout threads = logical_divide(tile, leaf(32, 1));    // (32 of a tile, the rest)
//     offset = offset_of<threads>(lane, i);
//
// An operation whose rule is broken (a stride that does not divide) gives a layout that is not
// valid(), and so do operations on it. Device code evaluates layouts through offset_of<>, which
// leaves nothing of them but the arithmetic, and refuses invalid ones.
#pragma once
#include "base.cuh"

namespace culet::kernels {

/// XORs `bits` bits of an offset, from bit base + shift up, into those from bit `base` up (with a
/// negative shift the other way about): an involution that spreads columns over memory banks.
struct Swizzle {
  int bits = 0;
  int base = 0;
  int shift = 0;
  CULET_HD constexpr u32 operator()(u32 offset) const {
    const u32 mask = (1U << bits) - 1;
    if (shift < 0) return offset ^ ((offset & (mask << base)) << -shift);
    return offset ^ ((offset & (mask << (base + shift))) >> shift);
  }
};

/// A tree of modes in preorder. A node without children is a leaf with a size and a stride. (All
/// members are public because only then can a layout be a template argument.)
struct Layout {
  static constexpr int kMaxNodes = 24;
  struct Node {
    int size = 0;
    int stride = 0;
    int children = 0;
  };
  Node nodes_[kMaxNodes] = {};
  int count_ = 0;

  /// One mode with 1 element.
  CULET_HD constexpr Layout() : Layout(1, 0) {}
  CULET_HD constexpr Layout(int size, int stride) : count_(1) { nodes_[0] = {size, stride, 0}; }

  CULET_HD constexpr bool valid() const { return count_ > 0; }
  CULET_HD constexpr bool is_leaf() const { return nodes_[0].children == 0; }
  /// Number of modes; a leaf is its own only mode.
  CULET_HD constexpr int rank() const { return is_leaf() ? 1 : nodes_[0].children; }
  /// Number of indices.
  CULET_HD constexpr int size() const {
    int product = 1;
    for (int i = 0; i < count_; ++i) product *= nodes_[i].children == 0 ? nodes_[i].size : 1;
    return product;
  }
  /// One more than the largest offset.
  CULET_HD constexpr int cosize() const { return (*this)(size() - 1) + 1; }
  /// Size or stride of a layout that is a leaf.
  CULET_HD constexpr int leaf_size() const { return nodes_[0].size; }
  CULET_HD constexpr int leaf_stride() const { return nodes_[0].stride; }

  /// The offset of an index; past the end the last leaf goes on.
  CULET_HD constexpr int operator()(int index) const {
    int offset = 0;
    int stride = 0;  // of the leaf before, whose coordinate is what is left of the index
    for (int i = 0, size = 1; i < count_; ++i) {
      if (nodes_[i].children != 0) continue;
      // The leaf before is not the last, so its coordinate wraps.
      offset += index % size * stride;
      index /= size;
      size = nodes_[i].size;
      stride = nodes_[i].stride;
    }
    return offset + index * stride;
  }
  /// The offset of one index a mode.
  CULET_HD constexpr int operator()(int first, int second) const {
    return mode(0)(first) + mode(1)(second);
  }

  CULET_HD constexpr Layout mode(int which) const {
    if (is_leaf()) return *this;
    int at = 1;
    for (; which > 0; --which) at = end_of(at);
    Layout out = none();
    for (int i = at; i < end_of(at); ++i) out.nodes_[out.count_++] = nodes_[i];
    return out;
  }

  /// All modes but the first, of a layout with two or more.
  CULET_HD constexpr Layout without_first() const {
    Layout out = group();
    for (int i = 1; i < rank(); ++i) out.add(mode(i));
    return out;
  }

  /// The same leaves in order, as modes of one flat layout.
  CULET_HD constexpr Layout flat() const {
    Layout out = group();
    for (int i = 0; i < count_; ++i) {
      if (nodes_[i].children == 0) out.add({nodes_[i].size, nodes_[i].stride});
    }
    return out.unwrapped();
  }

  /// A group without modes, to add() to.
  CULET_HD static constexpr Layout group() {
    Layout out = none();
    out.count_ = 1;
    return out;
  }
  /// What broken rules give.
  CULET_HD static constexpr Layout none() {
    Layout out(0, 0);
    out.count_ = 0;
    return out;
  }
  /// Adds a mode to a group. A group that must be a group stays one, also of one mode.
  CULET_HD constexpr void add(const Layout& mode) {
    if (!valid() || !mode.valid() || count_ + mode.count_ > kMaxNodes) {
      count_ = 0;
      return;
    }
    ++nodes_[0].children;
    for (int i = 0; i < mode.count_; ++i) nodes_[count_++] = mode.nodes_[i];
  }
  /// A group of one mode as that mode; any other layout as it is.
  CULET_HD constexpr Layout unwrapped() const {
    return valid() && nodes_[0].children == 1 ? mode(0) : *this;
  }

  CULET_HD friend constexpr bool operator==(const Layout& x, const Layout& y) {
    if (x.count_ != y.count_) return false;
    for (int i = 0; i < x.count_; ++i) {
      const Node &p = x.nodes_[i], &q = y.nodes_[i];
      if (p.children != q.children) return false;
      if (p.children == 0 && (p.size != q.size || p.stride != q.stride)) return false;
    }
    return true;
  }

  CULET_HD constexpr int end_of(int node) const {
    int left = 1;
    for (; left > 0; ++node) left += nodes_[node].children - 1;
    return node;
  }
};

CULET_HD constexpr Layout leaf(int size, int stride) { return {size, stride}; }

/// A layout with these modes.
template <class... Modes>
CULET_HD constexpr Layout modes(const Modes&... all) {
  Layout out = Layout::group();
  (out.add(all), ...);
  return out;
}

/// Sizes without gaps, the first fastest: compact(4, 8) is 4:1, 8:4.
template <class... Sizes>
CULET_HD constexpr Layout compact(Sizes... sizes) {
  Layout out = Layout::group();
  int stride = 1;
  ((out.add(leaf(sizes, stride)), stride *= sizes), ...);
  return out.unwrapped();
}

/// The same map of indices to offsets with the fewest leaves: leaves of size 1 are dropped, and one
/// that continues the leaf before is joined to it.
CULET_HD constexpr Layout coalesce(const Layout& layout) {
  if (!layout.valid()) return layout;
  const Layout flat = layout.flat();
  Layout out = Layout::group();
  Layout last(1, 0);
  for (int i = 0; i < flat.rank(); ++i) {
    const Layout next = flat.mode(i);
    if (next.leaf_size() == 1) continue;
    if (last.leaf_size() == 1) {
      last = next;
    } else if (last.leaf_size() * last.leaf_stride() == next.leaf_stride()) {
      last = leaf(last.leaf_size() * next.leaf_size(), last.leaf_stride());
    } else {
      out.add(last);
      last = next;
    }
  }
  out.add(last);
  return out.unwrapped();
}

/// Layout(index) for device code: divisions and products by constants.
template <Layout L>
CULET_HD constexpr int offset_of(int index) {
  static_assert(L.valid(), "an operation that made this layout broke its rule");
  if constexpr (L.is_leaf()) {
    return index * L.leaf_stride();
  } else if constexpr (L.rank() == 1) {
    return offset_of<L.mode(0)>(index);
  } else {
    constexpr Layout kFirst = L.mode(0);
    return offset_of<kFirst>(index % kFirst.size()) +
           offset_of<L.without_first()>(index / kFirst.size());
  }
}
/// Layout(first, second) for device code: one index a mode.
template <Layout L>
CULET_HD constexpr int offset_of(int first, int second) {
  return offset_of<L.mode(0)>(first) + offset_of<L.mode(1)>(second);
}

/// Each mode coalesced by itself.
CULET_HD constexpr Layout coalesce_modes(const Layout& layout) {
  if (!layout.valid() || layout.is_leaf()) return coalesce(layout);
  Layout out = Layout::group();
  for (int i = 0; i < layout.rank(); ++i) out.add(coalesce(layout.mode(i)));
  return out;
}

/// x -> outer(inner(x)), with the modes of `inner`. Rule: each stride of `inner` divides, or is a
/// multiple of, the sizes of `outer` that it steps over.
CULET_HD constexpr Layout composition(const Layout& outer, const Layout& inner) {
  if (!outer.valid() || !inner.valid()) return Layout::none();
  if (!inner.is_leaf()) {
    Layout out = Layout::group();
    for (int i = 0; i < inner.rank(); ++i) out.add(composition(outer, inner.mode(i)));
    return out;
  }
  int size = inner.leaf_size();
  int stride = inner.leaf_stride();
  if (stride == 0) return inner;
  const Layout flat = coalesce(outer);
  const int last = flat.rank() - 1;
  Layout out = Layout::group();
  for (int i = 0; i < last; ++i) {
    const Layout from = flat.mode(i);
    const int whole = from.leaf_size();
    if (whole % stride != 0 && stride % whole != 0) return Layout::none();
    // Of this leaf every stride-th element is taken, as many as are left to take.
    const int taken = smaller(whole > stride ? whole / stride : 1, size);
    if (size % taken != 0) return Layout::none();
    if (taken != 1) out.add(leaf(taken, stride * from.leaf_stride()));
    size /= taken;
    stride = ceil_div(stride, whole);
  }
  // The last leaf goes on for ever.
  const bool is_first = out == Layout::group();
  if (size != 1 || is_first) out.add(leaf(size, stride * flat.mode(last).leaf_stride()));
  return out.unwrapped();
}

/// Mode i of `layout` composed with the i-th tiler; further modes stay as they are.
template <class... Tilers>
CULET_HD constexpr Layout composition_by_mode(const Layout& layout, const Tilers&... tilers) {
  Layout out = Layout::group();
  int i = 0;
  (out.add(composition(layout.mode(i++), tilers)), ...);
  for (; i < layout.rank(); ++i) out.add(layout.mode(i));
  return out;
}

/// The leaves of `layout` sorted by stride, with what each covers; shared by the inverses.
CULET_HD constexpr Layout sorted_by_stride(const Layout& layout,
                                           int (&index_stride)[Layout::kMaxNodes]) {
  const Layout flat = layout.flat();
  int order[Layout::kMaxNodes] = {};
  int prefix[Layout::kMaxNodes] = {};
  for (int i = 0, product = 1; i < flat.rank(); ++i) {
    prefix[i] = product;
    product *= flat.mode(i).leaf_size();
    int at = i;
    for (; at > 0; --at) {
      const Layout before = flat.mode(order[at - 1]);
      const Layout now = flat.mode(i);
      const bool in_order =
          before.leaf_stride() < now.leaf_stride() ||
          (before.leaf_stride() == now.leaf_stride() && before.leaf_size() <= now.leaf_size());
      if (in_order) break;
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
  Layout out = Layout::group();
  for (int i = 0; i < flat.rank(); ++i) {
    out.add(flat.mode(order[i]));
    index_stride[i] = prefix[order[i]];
  }
  return out;
}

/// What `layout` leaves out of 0 .. cotarget-1: together, modes(layout, complement) reaches every
/// offset below cotarget, rounded up to whole repetitions. Rule: no two indices share an offset.
CULET_HD constexpr Layout complement(const Layout& layout, int cotarget) {
  if (!layout.valid()) return layout;
  int unused[Layout::kMaxNodes] = {};
  const Layout sorted = sorted_by_stride(layout, unused);
  Layout out = Layout::group();
  int covered = 1;
  for (int i = 0; i < sorted.rank(); ++i) {
    const Layout next = sorted.mode(i);
    if (next.leaf_stride() == 0 || next.leaf_size() == 1) continue;
    if (next.leaf_stride() % covered != 0) return Layout::none();
    out.add(leaf(next.leaf_stride() / covered, covered));
    covered = next.leaf_size() * next.leaf_stride();
  }
  out.add(leaf(ceil_div(cotarget, covered), covered));
  return coalesce(out);
}

/// layout(right_inverse(x)) == x for x below right_inverse.size(), the longest run of offsets from
/// 0 that the layout reaches without a gap.
CULET_HD constexpr Layout right_inverse(const Layout& layout) {
  if (!layout.valid()) return layout;
  int index_stride[Layout::kMaxNodes] = {};
  const Layout sorted = sorted_by_stride(layout, index_stride);
  Layout out = Layout::group();
  out.add(leaf(1, 0));
  int reached = 1;
  for (int i = 0; i < sorted.rank(); ++i) {
    const Layout next = sorted.mode(i);
    if (next.leaf_size() == 1) continue;
    if (next.leaf_stride() != reached) break;
    out.add(leaf(next.leaf_size(), index_stride[i]));
    reached *= next.leaf_size();
  }
  return coalesce(out);
}

/// left_inverse(layout(x)) == x for every index x of a layout without repeated offsets.
CULET_HD constexpr Layout left_inverse(const Layout& layout) {
  return right_inverse(modes(layout, complement(layout, 1)));
}

/// Splits `layout` into (what `tiler` picks, the repetitions of it).
CULET_HD constexpr Layout logical_divide(const Layout& layout, const Layout& tiler) {
  return composition(layout, modes(tiler, complement(tiler, layout.size())));
}

/// Mode i of `layout` divided by the i-th tiler; further modes stay as they are.
template <class... Tilers>
CULET_HD constexpr Layout logical_divide_by_mode(const Layout& layout, const Tilers&... tilers) {
  Layout out = Layout::group();
  int i = 0;
  (out.add(logical_divide(layout.mode(i++), tilers)), ...);
  for (; i < layout.rank(); ++i) out.add(layout.mode(i));
  return out;
}

/// Divided by mode and regrouped: ((a tile's modes), (the repetitions' modes)).
template <class... Tilers>
CULET_HD constexpr Layout zipped_divide(const Layout& layout, const Tilers&... tilers) {
  const Layout divided = logical_divide_by_mode(layout, tilers...);
  if (!divided.valid()) return divided;
  Layout tile = Layout::group();
  Layout rest = Layout::group();
  for (int i = 0; i < divided.rank(); ++i) {
    const bool is_divided = i < static_cast<int>(sizeof...(tilers));
    if (is_divided) tile.add(divided.mode(i).mode(0));
    rest.add(is_divided ? divided.mode(i).mode(1) : divided.mode(i));
  }
  return modes(tile, rest);
}

/// As zipped_divide, with each mode of the repetitions a mode of its own.
template <class... Tilers>
CULET_HD constexpr Layout tiled_divide(const Layout& layout, const Tilers&... tilers) {
  const Layout zipped = zipped_divide(layout, tilers...);
  if (!zipped.valid()) return zipped;
  Layout out = modes(zipped.mode(0));
  for (int i = 0; i < zipped.mode(1).rank(); ++i) out.add(zipped.mode(1).mode(i));
  return out;
}

/// (layout, repetitions of it where `tiler` says, each moved to where it meets no other).
CULET_HD constexpr Layout logical_product(const Layout& layout, const Layout& tiler) {
  if (!layout.valid() || !tiler.valid()) return Layout::none();
  const Layout others = complement(layout, layout.size() * tiler.cosize());
  return modes(layout, composition(others, tiler));
}

}  // namespace culet::kernels
