#include "train/evaluation_graph.h"

namespace spillway::train {

EvaluationGraph build_evaluation_graph(const ModelConfig& model, const TrainingGraphOptions& options,
                                       const TrainingGraph& training) {
  EvaluationGraph result;
  result.graph.name = "evaluation";
  Builder builder(result.graph, {.name = "evaluate"});
  builder.adopt(training.graph);
  DecoderOptions without_dropout = options.decoder;
  if (without_dropout.lora) without_dropout.lora->dropout = 0;
  const Decoder decoder = build_decoder(builder, model, without_dropout);
  result.inputs = decoder.inputs;
  result.objective = append_objective(builder, *options.objective, decoder, ops::LossGradients::kNone);
  return result;
}

}  // namespace spillway::train
