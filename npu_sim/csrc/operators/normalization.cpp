// Softmax, layer norm, RMS norm, batch norm and group norm, with their gradients.
#include <algorithm>

#include "operators/lines.h"

using namespace sim;

namespace {

using Values = std::vector<double>;

// out = f(line values) for each line along a dimension.
template <class F>
void per_line(const Tensor& in, int64_t dim, const Tensor& out, F f) {
  Values x = read<double>(in);
  Lines lines(in.shape, in.shape.empty() ? 0 : wrap_dim(dim, in.dims()));
  for (int64_t line = 0; line < lines.count; line++) {
    Values values(static_cast<size_t>(lines.length));
    for (int64_t i = 0; i < lines.length; i++) values[static_cast<size_t>(i)] = x[lines.at(line, i)];
    f(values);
    for (int64_t i = 0; i < lines.length; i++) x[lines.at(line, i)] = values[static_cast<size_t>(i)];
  }
  write(out, x);
}

double log_sum_exp(const Values& x) {
  double largest = *std::max_element(x.begin(), x.end()), total = 0;
  if (std::isinf(largest) && largest < 0) return -INFINITY;
  for (double value : x) total += std::exp(value - largest);
  return largest + std::log(total);
}

template <class F>
void per_line_with_grad(const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out, F f) {
  Values g = read<double>(grad), y = read<double>(output);
  Lines lines(output.shape, output.shape.empty() ? 0 : wrap_dim(dim, output.dims()));
  for (int64_t line = 0; line < lines.count; line++) {
    double total = 0;
    for (int64_t i = 0; i < lines.length; i++) total += f.sum(g[lines.at(line, i)], y[lines.at(line, i)]);
    for (int64_t i = 0; i < lines.length; i++) {
      size_t at = lines.at(line, i);
      g[at] = f.grad(g[at], y[at], total);
    }
  }
  write(out, g);
}
struct SoftmaxGrad {
  double sum(double g, double y) const { return g * y; }
  double grad(double g, double y, double total) const { return y * (g - total); }
};
struct LogSoftmaxGrad {
  double sum(double g, double) const { return g; }
  double grad(double g, double y, double total) const { return g - std::exp(y) * total; }
};

int64_t tail_count(const Tensor& in, size_t dims) {
  return element_count({in.shape.end() - static_cast<long>(dims), in.shape.end()});
}
Values read_or(const MaybeTensor& tensor, size_t count, double fallback) {
  return tensor ? read<double>(*tensor) : Values(count, fallback);
}
void write_if(const MaybeTensor& tensor, const Values& values) {
  if (tensor && tensor->count() > 0) write(*tensor, values);
}

void layer_norm(const Tensor& in, size_t dims, const MaybeTensor& weight, const MaybeTensor& bias, double epsilon,
                const Tensor& out, const MaybeTensor& mean_out, const MaybeTensor& rstd_out) {
  Values x = read<double>(in), means, rstds;
  size_t width = static_cast<size_t>(tail_count(in, dims));
  Values w = read_or(weight, width, 1), b = read_or(bias, width, 0);
  for (size_t start = 0; width && start < x.size(); start += width) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < width; i++) mean += x[start + i];
    mean /= static_cast<double>(width);
    for (size_t i = 0; i < width; i++) variance += (x[start + i] - mean) * (x[start + i] - mean);
    double rstd = 1 / std::sqrt(variance / static_cast<double>(width) + epsilon);
    for (size_t i = 0; i < width; i++) x[start + i] = (x[start + i] - mean) * rstd * w[i] + b[i];
    means.push_back(mean);
    rstds.push_back(rstd);
  }
  write(out, x);
  write_if(mean_out, means);
  write_if(rstd_out, rstds);
}

void layer_norm_grad(const Tensor& grad, const Tensor& in, size_t dims, const Tensor& mean, const Tensor& rstd,
                     const MaybeTensor& weight, const MaybeTensor& grad_in, const MaybeTensor& grad_weight,
                     const MaybeTensor& grad_bias) {
  Values g = read<double>(grad), x = read<double>(in), m = read<double>(mean), r = read<double>(rstd);
  size_t width = static_cast<size_t>(tail_count(in, dims));
  Values w = read_or(weight, width, 1), dw(width, 0), db(width, 0), dx(x.size());
  for (size_t start = 0, row = 0; width && start < x.size(); start += width, row++) {
    double sum = 0, sum_x = 0;
    for (size_t i = 0; i < width; i++) {
      double normal = (x[start + i] - m[row]) * r[row];
      dw[i] += g[start + i] * normal;
      db[i] += g[start + i];
      sum += g[start + i] * w[i];
      sum_x += g[start + i] * w[i] * normal;
    }
    for (size_t i = 0; i < width; i++) {
      double normal = (x[start + i] - m[row]) * r[row];
      dx[start + i] = r[row] * (g[start + i] * w[i] - (sum + normal * sum_x) / static_cast<double>(width));
    }
  }
  write_if(grad_in, dx);
  write_if(grad_weight, dw);
  write_if(grad_bias, db);
}

void rms_norm(const Values& x, const Tensor& gamma, double epsilon, const Tensor& out, const Tensor& rstd_out) {
  Values w = read<double>(gamma), y(x.size()), rstds;
  size_t width = w.size();
  for (size_t start = 0; width && start < x.size(); start += width) {
    double total = 0;
    for (size_t i = 0; i < width; i++) total += x[start + i] * x[start + i];
    double rstd = 1 / std::sqrt(total / static_cast<double>(width) + epsilon);
    for (size_t i = 0; i < width; i++) y[start + i] = x[start + i] * rstd * w[i];
    rstds.push_back(rstd);
  }
  write(out, y);
  write(rstd_out, rstds);
}

// Elements of channel c in [N, C, spatial...].
template <class Visit>
void for_each_of_channel(const Tensor& in, int64_t c, Visit visit) {
  int64_t channels = in.size(1), inner = in.count() / std::max<int64_t>(1, in.size(0) * channels);
  for (int64_t n = 0; n < in.size(0); n++)
    for (int64_t i = 0; i < inner; i++) visit(static_cast<size_t>((n * channels + c) * inner + i));
}

void batch_norm(const Tensor& in, const MaybeTensor& weight, const MaybeTensor& bias, const MaybeTensor& running_mean,
                const MaybeTensor& running_var, bool training, double momentum, double epsilon, const Tensor& out,
                const MaybeTensor& save_mean, const MaybeTensor& save_rstd) {
  size_t channels = static_cast<size_t>(in.size(1));
  Values x = read<double>(in), w = read_or(weight, channels, 1), b = read_or(bias, channels, 0);
  Values old_mean = read_or(running_mean, channels, 0), old_var = read_or(running_var, channels, 1);
  Values means(channels), rstds(channels);
  for (size_t c = 0; c < channels; c++) {
    double mean = old_mean[c], variance = old_var[c];
    if (training) {
      double count = 0, total = 0, squares = 0;
      for_each_of_channel(in, static_cast<int64_t>(c), [&](size_t i) { total += x[i], count++; });
      mean = total / count;
      for_each_of_channel(in, static_cast<int64_t>(c), [&](size_t i) { squares += (x[i] - mean) * (x[i] - mean); });
      variance = squares / count;
      old_mean[c] = (1 - momentum) * old_mean[c] + momentum * mean;
      old_var[c] = (1 - momentum) * old_var[c] + momentum * squares / std::max(1.0, count - 1);
    }
    means[c] = mean;
    rstds[c] = 1 / std::sqrt(variance + epsilon);
    for_each_of_channel(in, static_cast<int64_t>(c), [&](size_t i) { x[i] = (x[i] - mean) * rstds[c] * w[c] + b[c]; });
  }
  write(out, x);
  write_if(save_mean, means);
  write_if(save_rstd, rstds);
  if (!training) return;
  write_if(running_mean, old_mean);
  write_if(running_var, old_var);
}

}  // namespace

OPERATOR(Softmax, const Tensor* self, int64_t dim, const Tensor* out) {
  return PLAN(Softmax, {self, out}, [a = *self, dim, o = *out] {
    per_line(a, dim, o, [](Values& x) {
      double total = log_sum_exp(x);
      for (double& value : x) value = std::exp(value - total);
    });
  });
}
OPERATOR(LogSoftmax, const Tensor* self, int64_t dim, const Tensor* out) {
  return PLAN(LogSoftmax, {self, out}, [a = *self, dim, o = *out] {
    per_line(a, dim, o, [](Values& x) {
      double total = log_sum_exp(x);
      for (double& value : x) value -= total;
    });
  });
}
OPERATOR(SoftmaxBackward, const Tensor* grad, const Tensor* output, int64_t dim, const Tensor* out) {
  return PLAN(SoftmaxBackward, {grad, output, out},
              [g = *grad, y = *output, dim, o = *out] { per_line_with_grad(g, y, dim, o, SoftmaxGrad{}); });
}
OPERATOR(LogSoftmaxBackward, const Tensor* grad, const Tensor* output, int64_t dim, const Tensor* out) {
  return PLAN(LogSoftmaxBackward, {grad, output, out},
              [g = *grad, y = *output, dim, o = *out] { per_line_with_grad(g, y, dim, o, LogSoftmaxGrad{}); });
}

OPERATOR(LayerNorm, const Tensor* in, const IntArray* shape, const Tensor* weight, const Tensor* bias, double epsilon,
         const Tensor* out, const Tensor* mean, const Tensor* rstd) {
  return PLAN(LayerNorm, {in, weight, bias, out},
              [a = *in, dims = shape->values.size(), w = MaybeTensor(weight), b = MaybeTensor(bias), epsilon, o = *out,
               m = MaybeTensor(mean), r = MaybeTensor(rstd)] { layer_norm(a, dims, w, b, epsilon, o, m, r); });
}
OPERATOR(LayerNormBackward, const Tensor* grad, const Tensor* in, const IntArray* shape, const Tensor* mean,
         const Tensor* rstd, const Tensor* weight, const Tensor*, const BoolArray*, const Tensor* grad_in,
         const Tensor* grad_weight, const Tensor* grad_bias) {
  return PLAN(LayerNormBackward, {grad, in, mean, rstd, weight},
              [g = *grad, a = *in, dims = shape->values.size(), m = *mean, r = *rstd, w = MaybeTensor(weight),
               gi = MaybeTensor(grad_in), gw = MaybeTensor(grad_weight),
               gb = MaybeTensor(grad_bias)] { layer_norm_grad(g, a, dims, m, r, w, gi, gw, gb); });
}

OPERATOR(RmsNorm, const Tensor* self, const Tensor* gamma, double epsilon, const Tensor* out, const Tensor* rstd) {
  return PLAN(RmsNorm, {self, gamma, out, rstd},
              [a = *self, w = *gamma, epsilon, o = *out, r = *rstd] { rms_norm(read<double>(a), w, epsilon, o, r); });
}
OPERATOR(AddRmsNorm, const Tensor* x1, const Tensor* x2, const Tensor* gamma, double epsilon, const Tensor* out,
         const Tensor* rstd, const Tensor* sum) {
  return PLAN(AddRmsNorm, {x1, x2, gamma, out, rstd, sum},
              [a = *x1, b = *x2, w = *gamma, epsilon, o = *out, r = *rstd, s = *sum] {
                Values x = read<double>(a), y = read<double>(b);
                for (size_t i = 0; i < x.size(); i++) x[i] += y[i];
                write(s, x);
                rms_norm(x, w, epsilon, o, r);
              });
}
OPERATOR(RmsNormGrad, const Tensor* grad, const Tensor* self, const Tensor* rstd, const Tensor* gamma,
         const Tensor* grad_in, const Tensor* grad_gamma) {
  return PLAN(RmsNormGrad, {grad, self, rstd, gamma, grad_in, grad_gamma},
              [g = *grad, a = *self, r = *rstd, w = *gamma, gi = *grad_in, gw = *grad_gamma] {
                Values dy = read<double>(g), x = read<double>(a), s = read<double>(r), k = read<double>(w);
                Values dx(x.size()), dw(k.size(), 0);
                size_t width = k.size();
                for (size_t start = 0, row = 0; width && start < x.size(); start += width, row++) {
                  double dot = 0;
                  for (size_t i = 0; i < width; i++) {
                    dw[i] += dy[start + i] * x[start + i] * s[row];
                    dot += dy[start + i] * k[i] * x[start + i];
                  }
                  double share = dot * s[row] * s[row] / static_cast<double>(width);
                  for (size_t i = 0; i < width; i++)
                    dx[start + i] = s[row] * (dy[start + i] * k[i] - x[start + i] * share);
                }
                write(gi, dx);
                write(gw, dw);
              });
}

OPERATOR(BatchNorm, const Tensor* in, const Tensor* weight, const Tensor* bias, const Tensor* running_mean,
         const Tensor* running_var, bool training, double momentum, double epsilon, const Tensor* out,
         const Tensor* save_mean, const Tensor* save_rstd) {
  return PLAN(BatchNorm, {in, weight, bias, running_mean, running_var, out},
              [=, a = *in, w = MaybeTensor(weight), b = MaybeTensor(bias), rm = MaybeTensor(running_mean),
               rv = MaybeTensor(running_var), o = *out, sm = MaybeTensor(save_mean),
               sr = MaybeTensor(save_rstd)] { batch_norm(a, w, b, rm, rv, training, momentum, epsilon, o, sm, sr); });
}
OPERATOR(GroupNorm, const Tensor* in, const Tensor* weight, const Tensor* bias, int64_t n, int64_t channels,
         int64_t inner, int64_t groups, double epsilon, const Tensor* out, const Tensor* mean, const Tensor* rstd) {
  return PLAN(GroupNorm, {in, weight, bias, out},
              [=, a = *in, w = MaybeTensor(weight), b = MaybeTensor(bias), o = *out, m = MaybeTensor(mean),
               r = MaybeTensor(rstd)] {
                Values x = read<double>(a), k = read_or(w, static_cast<size_t>(channels), 1);
                Values shift = read_or(b, static_cast<size_t>(channels), 0), means, rstds;
                size_t width = static_cast<size_t>(channels / groups * inner);
                for (int64_t g = 0; g < n * groups; g++) {
                  size_t start = static_cast<size_t>(g) * width;
                  double total = 0, squares = 0;
                  for (size_t i = 0; i < width; i++) total += x[start + i];
                  double average = total / static_cast<double>(width);
                  for (size_t i = 0; i < width; i++) squares += (x[start + i] - average) * (x[start + i] - average);
                  double scale = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
                  for (size_t i = 0; i < width; i++) {
                    size_t c = (start + i) / static_cast<size_t>(inner) % static_cast<size_t>(channels);
                    x[start + i] = (x[start + i] - average) * scale * k[c] + shift[c];
                  }
                  means.push_back(average);
                  rstds.push_back(scale);
                }
                write(o, x);
                write_if(m, means);
                write_if(r, rstds);
              });
}
