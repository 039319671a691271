// Orthogonal bases that follow the eigenvectors of slowly changing matrices.
#pragma once

#include <algorithm>
#include <cstdint>

#include "batchless/training/parameter_tensor.h"

namespace batchless::training {

// A tensor as a matrix, outputs by everything else. A longer side than the bound keeps the standard basis:
// its arrays would be larger than the network.
struct Sides {
  explicit Sides(const ParameterTensor& tensor)
      : rows(tensor.sizes[0]), columns(tensor.size() / tensor.sizes[0]) {}

  static constexpr std::int64_t kLongest = 1024;

  bool rotates_rows() const { return rows <= kLongest; }
  bool rotates_columns() const { return columns <= kLongest; }
  // Numbers of the largest basis.
  std::int64_t largest_basis() const {
    const std::int64_t side = std::max(rotates_rows() ? rows : 0, rotates_columns() ? columns : 0);
    return side * side;
  }

  std::int64_t rows;
  std::int64_t columns;
};

// Turns `basis` (size, size), whose columns are the vectors, towards the eigenvectors of the positive
// semidefinite `matrix` (size, size), the largest eigenvalue's first; both row by row. A basis of zeros
// becomes the eigenvectors; any other Q of (matrix + d I) basis = Q R, a step of simultaneous iteration.
//
// With sqrt(precision) of the mean eigenvalue for d, vectors along which the matrix is 0 stay where they
// are. Without it rounding would turn them, and the matrix of a single gradient has many: eigenvalues up
// to d count as 0 at first, and in place of their vectors come what of the axes is orthogonal to all
// vectors before, in turn, of each the first axis that has enough of it.
template <class Real>
void TurnToEigenvectors(std::int64_t size, const Real* matrix, Real* basis);

}  // namespace batchless::training
