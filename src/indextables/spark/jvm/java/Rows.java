package indextables.spark;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.InterpretedUnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils$;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.jdk.javaapi.CollectionConverters;

/** Arrow's stream format as rows. */
final class Rows {
    /** Rows in Spark's own format: copies of rows over Arrow's memory would fail at nulls in arrays and maps. */
    static List of(byte[] stream) {
        BufferAllocator memory =
            ArrowUtils$.MODULE$.rootAllocator().newChildAllocator("indextables", 0L, Long.MAX_VALUE);
        try {
            ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(stream), memory);
            try {
                return read(reader);
            } finally {
                reader.close();
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        } finally {
            memory.close();
        }
    }

    private static List read(ArrowStreamReader reader) throws IOException {
        VectorSchemaRoot root = reader.getVectorSchemaRoot();
        UnsafeProjection copied = projection(ArrowUtils$.MODULE$.fromArrowSchema(root.getSchema()));
        List found = new ArrayList();
        while (reader.loadNextBatch()) {
            List vectors = root.getFieldVectors();
            ColumnVector[] columns = new ColumnVector[vectors.size()];
            for (int i = 0; i < columns.length; i++) columns[i] = new ArrowColumnVector((FieldVector) vectors.get(i));
            Iterator rows = new ColumnarBatch(columns, root.getRowCount()).rowIterator();
            while (rows.hasNext()) found.add(copied.apply((InternalRow) rows.next()).copy());
        }
        return found;
    }

    /** The columns unchanged. The projection is interpreted: a stream is short, and code generation is slow. */
    private static UnsafeProjection projection(StructType schema) {
        List columns = new ArrayList();
        StructField[] fields = schema.fields();
        for (int i = 0; i < fields.length; i++) {
            columns.add(new BoundReference(i, fields[i].dataType(), fields[i].nullable()));
        }
        return InterpretedUnsafeProjection$.MODULE$.createProjection(CollectionConverters.asScala(columns).toSeq());
    }
}
