// Gradients of activations, and losses with their gradients.
#include <algorithm>

#include "operators/lines.h"

using namespace sim;

namespace {

using Values = std::vector<double>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }
double gelu_grad(double x) { return 0.5 * (1 + std::erf(x * M_SQRT1_2)) + x * normal_density(x); }
double gelu_tanh_grad(double x) {
  double k = std::sqrt(2 / M_PI), inner = k * (x + 0.044715 * x * x * x), t = std::tanh(inner);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}
double silu_grad(double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }

enum LossReduction : int64_t { kNoReduction = 0, kMeanLoss = 1, kSumLoss = 2 };

void write_loss(const Values& losses, int64_t reduction, const Tensor& out) {
  if (reduction == kNoReduction) return write(out, losses);
  double total = 0;
  for (double loss : losses) total += loss;
  if (reduction == kMeanLoss) total /= static_cast<double>(losses.size());
  write(out, Values{total});
}

template <class F>
void pointwise_loss(const Tensor& a, const Tensor& b, int64_t reduction, const Tensor& out, F f) {
  Shape shape = broadcast_shapes(a.shape, b.shape);
  Values x = read<double>(a, shape), y = read<double>(b, shape);
  for (size_t i = 0; i < x.size(); i++) x[i] = f(x[i], y[i]);
  write_loss(x, reduction, out);
}

template <class F>
void pointwise_loss_grad(const Tensor& grad, const Tensor& a, const Tensor& b, int64_t reduction, const Tensor& out,
                         F f) {
  Values g = read<double>(grad, out.shape), x = read<double>(a, out.shape), y = read<double>(b, out.shape);
  double share = reduction == kMeanLoss ? 1 / static_cast<double>(x.size()) : 1;
  for (size_t i = 0; i < x.size(); i++) x[i] = g[i] * share * f(x[i], y[i]);
  write(out, x);
}

double smooth_l1(double difference, double beta) {
  double size = std::fabs(difference);
  return beta > 0 && size < beta ? 0.5 * size * size / beta : size - 0.5 * beta;
}
double smooth_l1_grad(double difference, double beta) {
  if (beta > 0 && std::fabs(difference) < beta) return difference / beta;
  return (difference > 0) - (difference < 0);
}

}  // namespace

// grad_in = grad * f(x), where x is the input or the output of the forward operator.
#define GRADIENT(NAME, EXPRESSION)                                                          \
  OPERATOR(NAME, const Tensor* grad, const Tensor* self, const Tensor* out) {               \
    return PLAN(NAME, {grad, self, out}, [g = *grad, a = *self, o = *out] {                 \
      apply2(g, a, o, [](double grad, double x) -> double { return grad * (EXPRESSION); }); \
    });                                                                                     \
  }
GRADIENT(SigmoidBackward, x*(1 - x))
GRADIENT(TanhBackward, 1 - x * x)
GRADIENT(GeluBackward, gelu_grad(x))
GRADIENT(SiluBackward, silu_grad(x))
GRADIENT(HardsigmoidBackward, x > -3 && x < 3 ? 1.0 / 6 : 0)
GRADIENT(HardswishBackward, x<-3 ? 0 : x> 3 ? 1 : x / 3 + 0.5)
GRADIENT(HardswishBackwardV2, x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5)

OPERATOR(GeluBackwardV2, const Tensor* grad, const Tensor* self, const char* approximate, const Tensor* out) {
  bool tanh = approximate && std::string(approximate) == "tanh";
  return PLAN(GeluBackwardV2, {grad, self, out}, [g = *grad, a = *self, tanh, o = *out] {
    apply2(g, a, o, [tanh](double grad, double x) { return grad * (tanh ? gelu_tanh_grad(x) : gelu_grad(x)); });
  });
}
OPERATOR(ThresholdBackward, const Tensor* grad, const Tensor* self, const Scalar* threshold, const Tensor* out) {
  return PLAN(ThresholdBackward, {grad, self, out}, [g = *grad, a = *self, t = *threshold, o = *out] {
    apply2(g, a, o, [&](auto grad, auto x) {
      using T = decltype(x);
      return x <= t.as<T>() ? T(0) : grad;
    });
  });
}
OPERATOR(LeakyReluBackward, const Tensor* grad, const Tensor* self, const Scalar* slope, bool, const Tensor* out) {
  return PLAN(LeakyReluBackward, {grad, self, out}, [g = *grad, a = *self, k = slope->as<double>(), o = *out] {
    apply2(g, a, o, [k](double grad, double x) { return x > 0 ? grad : grad * k; });
  });
}
OPERATOR(SoftplusBackward, const Tensor* grad, const Tensor* self, const Scalar* beta, const Scalar* threshold,
         const Tensor* out) {
  return PLAN(SoftplusBackward, {grad, self, out},
              [g = *grad, a = *self, b = beta->as<double>(), t = threshold->as<double>(), o = *out] {
                apply2(g, a, o, [=](double grad, double x) { return x * b > t ? grad : grad * sigmoid(x * b); });
              });
}
OPERATOR(EluBackward, const Tensor* grad, const Scalar* alpha, const Scalar* scale, const Scalar* input_scale,
         bool is_result, const Tensor* self, const Tensor* out) {
  return PLAN(EluBackward, {grad, self, out},
              [g = *grad, a = *self, k = alpha->as<double>(), s = scale->as<double>(), i = input_scale->as<double>(),
               is_result, o = *out] {
                apply2(g, a, o, [=](double grad, double x) {
                  if (x > 0) return grad * s;
                  return is_result ? grad * i * (x + s * k) : grad * s * k * i * std::exp(x * i);
                });
              });
}

// ---------------------------------------------------------------- gated units
OPERATOR(SwiGlu, const Tensor* self, int64_t dim, const Tensor* out) {
  return PLAN(SwiGlu, {self, out}, [a = *self, dim, o = *out] {
    int64_t d = wrap_dim(dim, a.dims()), half = a.size(d) / 2;
    apply2(narrow(a, d, 0, half), narrow(a, d, half, half), o, [](double x, double y) { return x * sigmoid(x) * y; });
  });
}
OPERATOR(SwiGluGrad, const Tensor* grad, const Tensor* self, int64_t dim, const Tensor* out) {
  return PLAN(SwiGluGrad, {grad, self, out}, [g = *grad, a = *self, dim, o = *out] {
    int64_t d = wrap_dim(dim, a.dims()), half = a.size(d) / 2;
    Tensor x = narrow(a, d, 0, half), y = narrow(a, d, half, half);
    apply3(g, x, y, narrow(o, d, 0, half), [](double grad, double x, double y) { return grad * y * silu_grad(x); });
    apply2(g, x, narrow(o, d, half, half), [](double grad, double x) { return grad * x * sigmoid(x); });
  });
}
OPERATOR(Glu, const Tensor* self, int64_t dim, const Tensor* out) {
  return PLAN(Glu, {self, out}, [a = *self, dim, o = *out] {
    int64_t d = wrap_dim(dim, a.dims()), half = a.size(d) / 2;
    apply2(narrow(a, d, 0, half), narrow(a, d, half, half), o, [](double x, double y) { return x * sigmoid(y); });
  });
}

// ---------------------------------------------------------------- losses
OPERATOR(MseLoss, const Tensor* self, const Tensor* target, int64_t reduction, const Tensor* out) {
  return PLAN(MseLoss, {self, target, out}, [a = *self, b = *target, reduction, o = *out] {
    pointwise_loss(a, b, reduction, o, [](double x, double y) { return (x - y) * (x - y); });
  });
}
OPERATOR(MseLossBackward, const Tensor* grad, const Tensor* self, const Tensor* target, int64_t reduction,
         const Tensor* out) {
  return PLAN(MseLossBackward, {grad, self, target, out}, [g = *grad, a = *self, b = *target, reduction, o = *out] {
    pointwise_loss_grad(g, a, b, reduction, o, [](double x, double y) { return 2 * (x - y); });
  });
}
OPERATOR(L1Loss, const Tensor* self, const Tensor* target, int64_t reduction, const Tensor* out) {
  return PLAN(L1Loss, {self, target, out}, [a = *self, b = *target, reduction, o = *out] {
    pointwise_loss(a, b, reduction, o, [](double x, double y) { return std::fabs(x - y); });
  });
}
OPERATOR(SmoothL1Loss, const Tensor* self, const Tensor* target, int64_t reduction, float beta, const Tensor* out) {
  return PLAN(SmoothL1Loss, {self, target, out}, [a = *self, b = *target, reduction, beta, o = *out] {
    pointwise_loss(a, b, reduction, o, [beta](double x, double y) { return smooth_l1(x - y, beta); });
  });
}
OPERATOR(SmoothL1LossBackward, const Tensor* grad, const Tensor* self, const Tensor* target, int64_t reduction,
         float beta, const Tensor* out) {
  return PLAN(
      SmoothL1LossBackward, {grad, self, target, out}, [g = *grad, a = *self, b = *target, reduction, beta, o = *out] {
        pointwise_loss_grad(g, a, b, reduction, o, [beta](double x, double y) { return smooth_l1_grad(x - y, beta); });
      });
}
OPERATOR(BinaryCrossEntropyWithLogits, const Tensor* self, const Tensor* target, const Tensor* weight,
         const Tensor* positive, int64_t reduction, const Tensor* out) {
  return PLAN(BinaryCrossEntropyWithLogits, {self, target, weight, positive, out},
              [a = *self, b = *target, w = MaybeTensor(weight), p = MaybeTensor(positive), reduction, o = *out] {
                Values x = read<double>(a), y = read<double>(b, a.shape);
                Values scale = w ? read<double>(*w, a.shape) : Values(x.size(), 1);
                Values pos = p ? read<double>(*p, a.shape) : Values(x.size(), 1);
                for (size_t i = 0; i < x.size(); i++) {
                  double log_one = std::log1p(std::exp(-std::fabs(x[i]))) + std::max(-x[i], 0.0);
                  x[i] = scale[i] * ((1 - y[i]) * x[i] + (1 + (pos[i] - 1) * y[i]) * log_one);
                }
                write_loss(x, reduction, o);
              });
}

// Negative log likelihood over [classes] or [batch, classes].
OPERATOR(NLLLoss, const Tensor* self, const Tensor* target, const Tensor* weight, int64_t reduction, int64_t ignored,
         const Tensor* out, const Tensor* total_weight) {
  return PLAN(NLLLoss, {self, target, weight, out, total_weight},
              [a = *self, t = *target, w = MaybeTensor(weight), reduction, ignored, o = *out, tw = *total_weight] {
                Values x = read<double>(a), losses;
                size_t classes = static_cast<size_t>(a.size(-1));
                Values scale = w ? read<double>(*w) : Values(classes, 1);
                std::vector<int64_t> labels = read<int64_t>(t);
                double weights = 0, total = 0;
                for (size_t i = 0; i < labels.size(); i++) {
                  bool skip = labels[i] == ignored;
                  size_t label = skip ? 0 : static_cast<size_t>(labels[i]);
                  losses.push_back(skip ? 0 : -scale[label] * x[i * classes + label]);
                  weights += skip ? 0 : scale[label];
                  total += losses.back();
                }
                if (reduction == kNoReduction)
                  write(o, losses);
                else
                  write(o, Values{reduction == kMeanLoss ? total / weights : total});
                write(tw, Values{weights});
              });
}
OPERATOR(NLLLossBackward, const Tensor* grad, const Tensor* self, const Tensor* target, const Tensor* weight,
         int64_t reduction, int64_t ignored, const Tensor* total_weight, const Tensor* out) {
  return PLAN(NLLLossBackward, {grad, self, target, weight, total_weight, out},
              [g = *grad, t = *target, w = MaybeTensor(weight), reduction, ignored, tw = *total_weight, o = *out] {
                size_t classes = static_cast<size_t>(o.size(-1));
                Values scale = w ? read<double>(*w) : Values(classes, 1), dx(static_cast<size_t>(o.count()), 0);
                Values grads = read<double>(g);
                double weights = read<double>(tw)[0];
                std::vector<int64_t> labels = read<int64_t>(t);
                for (size_t i = 0; i < labels.size(); i++) {
                  if (labels[i] == ignored) continue;
                  size_t label = static_cast<size_t>(labels[i]);
                  double share = reduction == kMeanLoss ? 1 / weights : 1;
                  dx[i * classes + label] = -scale[label] * share * grads[grads.size() == 1 ? 0 : i];
                }
                write(o, dx);
              });
}

// ---------------------------------------------------------------- optimiser step
OPERATOR(ApplyAdamWV2, const Tensor* parameter, const Tensor* mean, const Tensor* variance, const Tensor* largest,
         const Tensor* grad, const Tensor* step, float rate, float beta1, float beta2, float decay, float epsilon,
         bool amsgrad, bool maximize) {
  return PLAN(ApplyAdamWV2, {parameter, mean, variance, largest, grad, step},
              [=, p = *parameter, m = *mean, v = *variance, top = MaybeTensor(largest), g = *grad, s = *step] {
                Values x = read<double>(p), m1 = read<double>(m), m2 = read<double>(v), d = read<double>(g);
                Values most = top ? read<double>(*top) : m2;
                double t = read<double>(s)[0] + 1;
                double correction1 = 1 - std::pow(beta1, t), correction2 = 1 - std::pow(beta2, t);
                for (size_t i = 0; i < x.size(); i++) {
                  double gradient = maximize ? -d[i] : d[i];
                  x[i] *= 1 - rate * decay;
                  m1[i] = beta1 * m1[i] + (1 - beta1) * gradient;
                  m2[i] = beta2 * m2[i] + (1 - beta2) * gradient * gradient;
                  most[i] = std::max(most[i], m2[i]);
                  double spread = std::sqrt((amsgrad ? most[i] : m2[i]) / correction2) + epsilon;
                  x[i] -= rate / correction1 * m1[i] / spread;
                }
                write(p, x);
                write(m, m1);
                write(v, m2);
                if (amsgrad && top) write(*top, most);
              });
}
