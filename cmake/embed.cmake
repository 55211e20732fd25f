# SPDX-License-Identifier: Apache-2.0
# Writes a C++ file with the text of every kernel file: culet::embedded_kernel_table(name -> text).
set(body "")
separate_arguments(FILES)
foreach(file ${FILES})
  file(RELATIVE_PATH name ${ROOT} ${file})
  file(READ ${file} text)
  # String literals have a length limit in some compilers: cut into pieces.
  string(LENGTH "${text}" length)
  set(offset 0)
  set(literals "")
  while(offset LESS length)
    string(SUBSTRING "${text}" ${offset} 8000 piece)
    string(APPEND literals "R\"culet~(${piece})culet~\"\n")
    math(EXPR offset "${offset} + 8000")
  endwhile()
  string(APPEND body "  {\"${name}\", std::string_view(${literals})},\n")
endforeach()
file(WRITE ${OUTPUT} "// Generated from src/kernels by cmake/embed.cmake.
#include <string_view>
#include <utility>
#include <vector>
namespace culet {
const std::vector<std::pair<std::string_view, std::string_view>>& embedded_kernel_table() {
  static const std::vector<std::pair<std::string_view, std::string_view>> table = {
${body}  };
  return table;
}
}  // namespace culet
")
