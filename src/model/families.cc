// Which family a folder's model is of.
#include "model/decoder/decoder.h"
#include "model/model.h"

namespace spillway {

ModelPtr read_model(const std::filesystem::path& folder) { return read_decoder(folder); }

}  // namespace spillway
