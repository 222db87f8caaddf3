// SPDX-License-Identifier: Apache-2.0
#include "amp_help.h"

namespace gantrain {

const char* const kAmpHelp =
    R"(Mixed precision: convolutions and matrix products in half precision, weights in float32.

--amp                        with any preset: fp16 on GPUs; on a CPU bf16 for those convolutions and
                             products that it makes faster there, measured once as the run begins
--amp=fp16, --amp=bf16       one of them, for all; fp16 on a CPU rounds operands and results to fp16, and
                             a run is warned where bf16 on its CPU is slower than float32
--amp=off                    float32 (the default; on a GPU not of StyleGAN2, StyleGAN3, R3GAN: precision.mode)
--loss-scale dynamic|512     with fp16: of each network by itself; auto is dynamic
--set precision.KEY=VALUE    initial_scale, growth_factor, backoff_factor, growth_interval: the rule of
                             PyTorch's GradScaler; min_scale: below it the run ends with 5
--set precision.keep_float32=G,D.b8
                             networks or blocks that stay in float32; --dry-run=full lists the blocks
--set precision.mode=blocks  the way of StyleGAN2 and StyleGAN3: fp16 in the RECIPE.num_fp16_res top
                             resolutions, activations within +-RECIPE.conv_clamp, no loss scale unless one
                             is given; R3GAN computes its r3gan.num_fp16_res top resolutions in bf16. On a
                             GPU their presets do so without a flag and with --amp, as the authors' code
                             does (the tiny ones only with --amp); not with --amp=off, fp16 or bf16
--set precision.cpu_choice=V what --amp chose on a CPU: float32, bfloat16 (all, by autocast) or the list
                             in a run's config.json, for another run with the same types
--set precision.tf32=on      TensorFloat-32 for what is float32 on a GPU
--set optim.clip_norm=X      and optim.clip_value: after unscaling
--set train.on_nonfinite=stop
                             end at the first gradient that is not finite instead of leaving the step
                             out; train.nonfinite_limit steps left out in a row always end the run

In float32 whatever is asked for: statistics of batch, instance and pixel norm, minibatch standard
deviation and the last block of D, latents, styles and demodulation, R1, gradient and path length
penalties (with precision.mode=blocks as in the reference), losses, gradients of weights, optimizers
and the average. stats.jsonl has AMP/<player>/scale and AMP/<player>/skipped (steps left out in the
tick); such a step's images are counted once, as any other's, and a resume goes on with the same scale.

elsewhere                                     here
apex O0                                       --amp=off
apex O1                                       --amp=fp16
apex O2 (almost all fp16, float32 weights)    --amp=fp16: weights are always float32
apex O3 (fp16 weights as well)                nothing: it does not train GANs
amp.scale_loss(loss, optimizer, loss_id=i)    done for each network; its scale is its own
GradScaler(init_scale=512)                    --set precision.initial_scale=512
fp16_loss_scaler=dict(init_scale=512)         --amp=fp16 --set precision.initial_scale=512
AmpOptimWrapper(loss_scale='dynamic')         --amp=fp16
AmpOptimWrapper(loss_scale=512)               --amp=fp16 --loss-scale 512
AmpOptimWrapper(dtype='bfloat16')             --amp=bf16
loss_scale=dict(init_scale=A, growth_factor=B, backoff_factor=C, growth_interval=D)
                                              --set precision.initial_scale=A, and so on
accumulative_counts=8                         --accumulate 8 with eight times the --batch;
                                              of one network: --set D.accumulate=8
clip_grad=dict(max_norm=X)                    --set optim.clip_norm=X
clip_grad=dict(type='value', clip_value=X)    --set optim.clip_value=X
num_fp16_scales, num_fp16_res (StyleGAN2, 3)  --amp=fp16 --set precision.mode=blocks
                                              --set stylegan2.num_fp16_res=4
)";

}  // namespace gantrain
