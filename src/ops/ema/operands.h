// The operands of ema.
#pragma once

namespace spillway::ops::ema_op {

enum Input : int { kAverage, kWeight, kStep };

}  // namespace spillway::ops::ema_op
