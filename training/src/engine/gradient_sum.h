// In which order the gradients of a mini-batch's micro-batches are summed.
//
//   M micro-batches in P parts of M / P, part p from micro-batch p M / P on
//   part       its micro-batches' gradients, one after the other
//   mini-batch its parts as the leaves of a binary tree: parts 2 i and 2 i + 1 are added, then the
//              sums of parts 4 i .. 4 i + 1 and 4 i + 2 .. 4 i + 3, and so on. Where P is no power of
//              two, whole trees are left over; the last of them is added to the one before it
//
// So each rounding is the same whoever has summed which parts. Replica r of R takes the parts
// r P / R .. (r + 1) P / R - 1 and is left with sums that the tree has too: one where P / R is a power of
// two. With P = 1 the order is that of the micro-batches.
#pragma once

#include <cstdint>
#include <vector>

namespace batchless::training {

// The sum of the parts first .. first + count - 1, a whole tree.
struct PartialSum {
  std::int64_t first = 0;
  std::int64_t count = 1;

  friend bool operator==(const PartialSum&, const PartialSum&) = default;
};

// The sums of the parts up to some place, few as they can be.
class PartialSums {
 public:
  // Takes one that begins where the last one ends. Returns how often the last two sums are now added
  // up to one.
  int Append(PartialSum sum);
  const std::vector<PartialSum>& sums() const { return sums_; }

 private:
  std::vector<PartialSum> sums_;
};

// What one replica does with its parts. Sums lie in slots, in their order.
class GradientParts {
 public:
  // `parts` in all; `replicas` divides them.
  GradientParts(std::int64_t parts, int replicas, int replica);

  std::int64_t count() const { return static_cast<std::int64_t>(steps_.size()); }  // of the share
  // Where the gradients of the share's part number `part` are summed.
  std::int64_t slot(std::int64_t part) const { return steps_[part].slot; }
  // How often, after that, the sums of the last two slots are added up to one.
  int additions(std::int64_t part) const { return steps_[part].additions; }
  std::int64_t slots() const { return slots_; }
  // What is left in the end.
  const std::vector<PartialSum>& sums() const { return left_.sums(); }

 private:
  struct Step {
    std::int64_t slot = 0;
    int additions = 0;
  };

  std::vector<Step> steps_;
  std::int64_t slots_ = 0;
  PartialSums left_;
};

}  // namespace batchless::training
