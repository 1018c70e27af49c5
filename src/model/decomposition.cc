#include "model/decomposition.h"

#include <Eigen/QR>
#include <Eigen/SVD>

#include "base/random.h"

namespace spillway {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Columns = Eigen::MatrixXf;  // as Eigen's decompositions like them

std::vector<float> elements_of(const Matrix& matrix) { return {matrix.data(), matrix.data() + matrix.size()}; }

Columns matrix_of(std::span<const float> w, int64_t rows, int64_t columns) {
  return Eigen::Map<const Matrix>(w.data(), rows, columns);
}

// B = U_r sqrt(S_r / scale), A = sqrt(S_r / scale) V_r'.
LowRankFactors balanced(const Columns& u, const Eigen::VectorXf& s, const Columns& v, int64_t r, double scale) {
  const Eigen::VectorXf roots = (s.head(r).cast<double>() / scale).cwiseSqrt().cast<float>();
  const Matrix b = u.leftCols(r) * roots.asDiagonal();
  const Matrix a = roots.asDiagonal() * v.leftCols(r).transpose();
  return {elements_of(b), elements_of(a)};
}

// An orthonormal basis of the columns.
Columns basis_of(const Columns& y) {
  const Eigen::HouseholderQR<Columns> qr(y);
  return qr.householderQ() * Columns::Identity(y.rows(), y.cols());
}

}  // namespace

LowRankFactors singular_factors(std::span<const float> w, int64_t rows, int64_t columns, int64_t r, double scale) {
  const Eigen::BDCSVD<Columns> svd(matrix_of(w, rows, columns), Eigen::ComputeThinU | Eigen::ComputeThinV);
  return balanced(svd.matrixU(), svd.singularValues(), svd.matrixV(), r, scale);
}

LowRankFactors randomised_singular_factors(std::span<const float> w, int64_t rows, int64_t columns, int64_t r,
                                           double scale, int64_t iterations, uint64_t seed, uint64_t stream) {
  const Columns matrix = matrix_of(w, rows, columns);
  Columns start(columns, r);
  RandomStream random(seed, stream);
  for (float& value : start.reshaped()) value = random.normal();
  Columns basis = basis_of(matrix * start);
  for (int64_t i = 0; i < iterations; ++i) {
    basis = basis_of(matrix.transpose() * basis);
    basis = basis_of(matrix * basis);
  }
  const Columns small = basis.transpose() * matrix;
  const Eigen::BDCSVD<Columns> svd(small, Eigen::ComputeThinU | Eigen::ComputeThinV);
  return balanced(basis * svd.matrixU(), svd.singularValues(), svd.matrixV(), r, scale);
}

LowRankFactors orthogonal_factors(std::span<const float> w, int64_t rows, int64_t columns, int64_t r) {
  const Eigen::HouseholderQR<Columns> qr(matrix_of(w, rows, columns));
  const Matrix b = qr.householderQ() * Columns::Identity(rows, r);
  const Columns upper = qr.matrixQR().topRows(r).triangularView<Eigen::Upper>();
  return {elements_of(b), elements_of(Matrix(upper))};
}

}  // namespace spillway
