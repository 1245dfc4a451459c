# stp_embed(TARGET FILE SYMBOL) - the text of FILE as `const char SYMBOL[]`,
# terminated by NUL, compiled into TARGET.  The C code that uses it declares
# `extern const char SYMBOL[];`.  A change of FILE configures the build again.
function(stp_embed target file symbol)
  set(from ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set(to ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
  file(READ ${from} hex HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${hex}")
  string(REGEX REPLACE "((\\\\x..){16})" "\\1\"\n\"" bytes "${bytes}")
  file(CONFIGURE OUTPUT ${to} @ONLY CONTENT
    "extern const char ${symbol}[];\nconst char ${symbol}[] =\n\"${bytes}\";\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
  target_sources(${target} PRIVATE ${to})
endfunction()
