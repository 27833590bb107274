"""transformers' Trainer trains a small network."""

import tempfile

import framework_data
import reproducible

torch = reproducible.torch


def make_model():
    class Model(torch.nn.Module):
        """As the Trainer wants one: it gives its loss."""

        def __init__(self):
            super().__init__()
            self.network = framework_data.network()

        def forward(self, x, labels):
            predicted = self.network(x)
            return {'loss': (predicted - labels).square().mean(), 'predicted': predicted}

    return Model()


def main():
    arguments = framework_data.parser(__doc__).parse_args()
    reproducible.start(arguments)
    try:
        import transformers
    except ImportError:
        reproducible.skip('this Python has no transformers')

    transformers.set_seed(arguments.seed)
    model = make_model()
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder, max_steps=arguments.steps or 10**9, use_cpu=True, seed=arguments.seed,
            per_device_train_batch_size=arguments.batch, report_to='none', save_strategy='no',
            gradient_accumulation_steps=arguments.accumulate, disable_tqdm=True,
            logging_strategy='no', remove_unused_columns=False)
        transformers.Trainer(model, settings, train_dataset=framework_data.Rows(),
                             data_collator=framework_data.Collator(arguments)).train()
    reproducible.report_model(model.network)


if __name__ == '__main__':
    main()
