#include "batchless/hwmodel/cycle_time.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "batchless/analysis/argument.h"

namespace batchless::hwmodel {
namespace {

// A node is an action of a worker or a message on a link.
struct Node {
  double seconds = 0;
  int worker = -1;
  int boundary = -1;
  std::int64_t step = 0;   // where a pass over all nodes comes to it, by the cycle
  std::int64_t first = 0;  // the same by the time at which micro-batch 0 comes
};

struct Edge {
  std::int32_t from = 0;
  std::int32_t to = 0;
  double weight = 0;  // seconds of `from` and the latency between the two
  std::int64_t cycles = 0;
};

class EventGraph {
 public:
  EventGraph(const SteadyState& steady, const PipelineTimes& times)
      : steady_(steady), times_(times) {
    AddActions();
    AddMessages();
  }

  CycleTime Solve() {
    CycleTime result;
    result.microbatches_per_cycle = steady_.microbatches_per_cycle;
    result.busy_seconds.resize(steady_.workers.size());
    for (const Node& node : nodes_) {
      if (node.worker >= 0) {
        result.busy_seconds[static_cast<std::size_t>(node.worker)] += node.seconds;
      }
    }
    for (std::size_t w = 0; w < result.busy_seconds.size(); ++w) {
      if (result.busy_seconds[w] > result.seconds) {
        result.seconds = result.busy_seconds[w];
        result.worker = static_cast<int>(w);
      }
    }
    for (int b = 0; b + 1 < steady_.stages; ++b) {
      const double busy =
          times_.message_seconds(b) * static_cast<double>(steady_.microbatches_per_cycle);
      if (busy > result.seconds && crosses_[static_cast<std::size_t>(b)]) {
        result.seconds = busy;
        result.bottleneck = BottleneckKind::kLink;
        result.boundary = b;
        result.worker = -1;
      }
    }
    if (result.seconds <= 0) {
      throw analysis::InvalidArgument("times", 0.0, "a cycle that takes time");
    }
    Raise(result);
    return result;
  }

 private:
  std::int64_t Ordinal(int stage, ActionKind kind, std::int64_t offset) const {
    const std::int64_t m = steady_.microbatches_per_cycle;
    const std::int64_t residue = ((offset % m) + m) % m;
    const auto k = static_cast<std::int64_t>(kind);
    return (stage * std::int64_t{4} + k) * m + residue;
  }

  void AddEdge(std::int64_t from, std::int64_t to, double latency, std::int64_t cycles) {
    edges_.push_back({static_cast<std::int32_t>(from), static_cast<std::int32_t>(to),
                      nodes_[static_cast<std::size_t>(from)].seconds + latency, cycles});
  }

  void AddActions() {
    const std::int64_t m = steady_.microbatches_per_cycle;
    node_of_.assign(static_cast<std::size_t>(steady_.stages * 4 * m), -1);
    offsets_.resize(node_of_.size());
    worker_of_stage_.assign(static_cast<std::size_t>(steady_.stages), -1);
    for (std::size_t w = 0; w < steady_.workers.size(); ++w) {
      const std::vector<SteadyAction>& actions = steady_.workers[w];
      const auto first = static_cast<std::int64_t>(nodes_.size());
      for (const SteadyAction& action : actions) {
        const auto ordinal =
            static_cast<std::size_t>(Ordinal(action.stage, action.kind, action.offset));
        node_of_[ordinal] = static_cast<std::int32_t>(nodes_.size());
        offsets_[ordinal] = action.offset;
        const auto stage = static_cast<std::size_t>(action.stage);
        worker_of_stage_[stage] = static_cast<int>(w);
        nodes_.push_back({times_.stages[stage].seconds(action.kind), static_cast<int>(w), -1,
                          action.step * m,
                          action.step * m - action.offset * steady_.steps_per_cycle});
      }
      const auto count = static_cast<std::int64_t>(actions.size());
      for (std::int64_t i = 0; i < count; ++i) {
        AddEdge(first + i, first + (i + 1) % count, 0, i + 1 == count ? 1 : 0);
      }
    }
  }

  // The messages over each boundary, forwards and backwards, in the order of who sends them.
  void AddMessages() {
    crosses_.assign(static_cast<std::size_t>(steady_.stages), false);
    for (const std::vector<SteadyAction>& actions : steady_.workers) {
      for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
        // By sending stage: the first and the last message so far.
        std::vector<std::int64_t> firsts(static_cast<std::size_t>(steady_.stages), -1);
        std::vector<std::int64_t> lasts = firsts;
        for (const SteadyAction& action : actions) {
          const int receiver = action.stage + (kind == ActionKind::kForward ? 1 : -1);
          if (action.kind != kind || receiver < 0 || receiver >= steady_.stages) continue;
          AddMessage(action, receiver, firsts, lasts);
        }
        for (std::size_t s = 0; s < firsts.size(); ++s) {
          if (firsts[s] >= 0) AddEdge(lasts[s], firsts[s], 0, 1);
        }
      }
    }
  }

  void AddMessage(const SteadyAction& action, int receiver, std::vector<std::int64_t>& firsts,
                  std::vector<std::int64_t>& lasts) {
    const std::int64_t sender =
        node_of_[static_cast<std::size_t>(Ordinal(action.stage, action.kind, action.offset))];
    const auto target = static_cast<std::size_t>(Ordinal(receiver, action.kind, action.offset));
    const std::int64_t cycles = (action.offset - offsets_[target]) / steady_.microbatches_per_cycle;
    const auto stage = static_cast<std::size_t>(action.stage);
    if (worker_of_stage_[stage] == worker_of_stage_[static_cast<std::size_t>(receiver)]) {
      AddEdge(sender, node_of_[target], 0, cycles);
      return;
    }
    const int boundary = std::min(action.stage, receiver);
    crosses_[static_cast<std::size_t>(boundary)] = true;
    const double seconds = times_.message_seconds(boundary);
    if (seconds == 0) {
      AddEdge(sender, node_of_[target], times_.latency_seconds, cycles);
      return;
    }
    const auto message = static_cast<std::int64_t>(nodes_.size());
    const Node& origin = nodes_[static_cast<std::size_t>(sender)];
    nodes_.push_back({seconds, -1, boundary, origin.step, origin.first});
    AddEdge(sender, message, 0, 0);
    AddEdge(message, node_of_[target], times_.latency_seconds, cycles);
    if (lasts[stage] >= 0) AddEdge(lasts[stage], message, 0, 0);
    if (firsts[stage] < 0) firsts[stage] = message;
    lasts[stage] = message;
  }

  // Edges in the order of where they go to.
  std::vector<std::int32_t> Order(std::int64_t Node::*place) const {
    std::vector<std::int32_t> order(edges_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      const auto at = [&](std::int32_t e) {
        return nodes_[static_cast<std::size_t>(edges_[static_cast<std::size_t>(e)].to)].*place;
      };
      return at(a) < at(b);
    });
    return order;
  }

  // Raises result.seconds to the largest ratio, with the circuit that has it.
  void Raise(CycleTime& result) {
    constexpr double kTolerance = 1e-13;
    // Two orders in turn: each alone is slow on the kind of schedule that the other is made for.
    const std::array<std::vector<std::int32_t>, 2> orders = {Order(&Node::step),
                                                             Order(&Node::first)};
    starts_.assign(nodes_.size(), 0);
    reached_by_.assign(nodes_.size(), -1);
    for (std::size_t pass = 0;; ++pass) {
      bool changed = false;
      for (const std::int32_t e : orders[pass % 2]) {
        const Edge& edge = edges_[static_cast<std::size_t>(e)];
        const double start = starts_[static_cast<std::size_t>(edge.from)] + edge.weight -
                             result.seconds * static_cast<double>(edge.cycles);
        double& known = starts_[static_cast<std::size_t>(edge.to)];
        if (start <= known + kTolerance * result.seconds) continue;
        known = start;
        reached_by_[static_cast<std::size_t>(edge.to)] = e;
        changed = true;
      }
      if (!changed) return;
      if (RaiseToCircuit(result)) {
        std::fill(starts_.begin(), starts_.end(), 0.0);
        std::fill(reached_by_.begin(), reached_by_.end(), -1);
      }
    }
  }

  // Looks for a circuit among the edges that nodes were last reached by.
  bool RaiseToCircuit(CycleTime& result) {
    std::vector<std::int32_t> seen(nodes_.size(), -1);
    for (std::size_t start = 0; start < nodes_.size(); ++start) {
      std::size_t node = start;
      while (seen[node] < 0 && reached_by_[node] >= 0) {
        seen[node] = static_cast<std::int32_t>(start);
        node = static_cast<std::size_t>(edges_[static_cast<std::size_t>(reached_by_[node])].from);
      }
      if (reached_by_[node] < 0 || seen[node] != static_cast<std::int32_t>(start)) continue;
      Take(node, result);
      return true;
    }
    return false;
  }

  void Take(std::size_t start, CycleTime& result) const {
    double weight = 0;
    std::int64_t cycles = 0;
    std::vector<int> workers;
    int boundary = -1;
    std::size_t node = start;
    do {
      const Edge& edge = edges_[static_cast<std::size_t>(reached_by_[node])];
      weight += edge.weight;
      cycles += edge.cycles;
      if (nodes_[node].worker >= 0) workers.push_back(nodes_[node].worker);
      if (nodes_[node].boundary >= 0) boundary = nodes_[node].boundary;
      node = static_cast<std::size_t>(edge.from);
    } while (node != start);
    std::sort(workers.begin(), workers.end());
    workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
    result.seconds = std::max(result.seconds, weight / static_cast<double>(cycles));
    result.bottleneck = workers.empty()       ? BottleneckKind::kLink
                        : workers.size() == 1 ? BottleneckKind::kWorker
                                              : BottleneckKind::kCircuit;
    result.boundary = workers.empty() ? boundary : -1;
    result.worker = workers.size() == 1 ? workers.front() : -1;
    result.workers = workers.size() > 1 ? workers : std::vector<int>{};
  }

  const SteadyState& steady_;
  const PipelineTimes& times_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<std::int32_t> node_of_;  // by ordinal
  std::vector<std::int64_t> offsets_;  // by ordinal
  std::vector<int> worker_of_stage_;
  std::vector<bool> crosses_;  // by boundary: whether its stages have two workers
  std::vector<double> starts_;
  std::vector<std::int32_t> reached_by_;  // by node, an edge; -1 for none
};

}  // namespace

CycleTime ComputeCycleTime(const SteadyState& steady, const PipelineTimes& times) {
  Validate(times, steady.stages);
  return EventGraph(steady, times).Solve();
}

}  // namespace batchless::hwmodel
