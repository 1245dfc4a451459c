# A Python wheel (./ci/wheel) has the command in site-packages/steptune/bin, libraries
# in site-packages/steptune/lib, and NCCL and CUDA, if PyTorch brings them, in
# site-packages/nvidia.  ci/wheel_pack.py lets it run with glibc from 2.28 on.
foreach(target steptune steptune-cuda)
  if(TARGET ${target})
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/ci/wheel_glibc.c)
    target_link_options(${target} PRIVATE -static-libstdc++
      # where older releases have what is in libc.so.6 now
      LINKER:--push-state,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 LINKER:--pop-state)
  endif()
endforeach()
set(up "$ORIGIN/../..")
set_target_properties(steptune PROPERTIES
  INSTALL_RPATH "$ORIGIN/../lib/steptune;${up}/nvidia/nccl/lib")
if(TARGET steptune-cuda)
  set(nvidia "${up}/../nvidia")
  set_target_properties(steptune-cuda PROPERTIES INSTALL_RPATH
    "${nvidia}/nccl/lib;${nvidia}/cu${CUDAToolkit_VERSION_MAJOR}/lib;${nvidia}/cublas/lib;${nvidia}/cuda_cupti/lib")
endif()
